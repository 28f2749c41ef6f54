package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"rtj.dev/rtj/test/figures"
)

// source is one command that measures.
type source struct {
	name    string
	cluster bool
	dir     string
	argv    []string
	read    func(line string) []figure
	// unless names a variable without which a part is skipped, and why.
	unless, skipped string
}

func goBench(name, pkg, pattern string, more ...string) source {
	argv := append([]string{"go", "test", "-run", "^$", "-bench", pattern, "-benchmem"}, more...)
	return source{name: name, argv: append(argv, pkg), read: readGoBench}
}

// sources are all measurements, in the order of the table.
var sources = []source{
	goBench("the core", "./compose", "."),
	goBench("the choice of a checkpoint", "./compose/checkpoint", "."),
	goBench("the hook over HTTP", "./hooks/...", "HTTP", "-benchtime", "3s"), // after the heap has grown
	goBench("decoding a request, and what encoding/json needs", "./hooks/contract", "."),
	goBench("reading the store", "./hooks/catalog", "."),
	goBench("the simulated world", "./test/world", "SmallWorld", "-benchtime", "20000x", "-cpu", "1"),
	{name: "the SDK", dir: "sdk/python", argv: []string{"../../.venv/bin/python", "bench/step.py"}, read: readSDK},
	{name: "a preempt-and-resume cycle on the local cluster", cluster: true,
		argv: []string{"go", "run", "./test/e2e/run", "-suite", "APIWrites"}, read: readFigure},
	{name: "a fleet on fake nodes", cluster: true, argv: []string{"go", "run", "./test/fleet"}, read: readFigure, unless: "E2E_METACONTROLLER", skipped: "the fleet under Metacontroller"},
	{name: "the applier, and Metacontroller beside it", cluster: true,
		argv: []string{"go", "test", "-tags", "e2e", "-run", "^$", "-bench", "Convergence|Idle", "-benchtime", "1x", "./metacontroller/applier"}, read: readFigure,
		unless: "E2E_METACONTROLLER", skipped: "Metacontroller's part, since METACONTROLLER names no binary of version 4.17"},
}

// measure runs the command and reads its figures line by line.
func (s source) measure(ctx context.Context) ([]figure, error) {
	cmd := exec.CommandContext(ctx, s.argv[0], s.argv[1:]...)
	cmd.Dir = s.dir
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	out, err := cmd.CombinedOutput()
	var figures []figure
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		figures = append(figures, s.read(lines.Text())...)
	}
	if err != nil {
		return figures, fmt.Errorf("%w\n%s", err, tail(out, 40))
	}
	if len(figures) == 0 {
		return nil, errors.New("it printed no figure")
	}
	return figures, nil
}

func tail(out []byte, n int) string {
	lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// readFigure reads a line of package figures.
func readFigure(line string) []figure {
	if f, ok := figures.Read(line); ok {
		return []figure{f}
	}
	return nil
}

// readSDK reads a line of the SDK's benchmarks: a median and a 99th percentile.
func readSDK(line string) []figure {
	var f struct {
		Name, Input, Unit string
		Median, P99       float64
	}
	if json.Unmarshal([]byte(line), &f) != nil || f.Name == "" {
		return nil
	}
	unit := strings.Replace(f.Unit, "us", "µs", 1)
	return []figure{
		{Name: f.Name + ", median", Input: f.Input, Value: f.Median, Unit: unit},
		{Name: f.Name + ", p99", Input: f.Input, Value: f.P99, Unit: unit},
	}
}

var benchLine = regexp.MustCompile(`^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)

// readGoBench reads a line of Go's benchmark format: the name up to the first
// slash is what is measured, the rest its input.
func readGoBench(line string) []figure {
	m := benchLine.FindStringSubmatch(line)
	if m == nil {
		return nil
	}
	name, input, _ := strings.Cut(m[1], "/")
	input = strings.ReplaceAll(strings.ReplaceAll(input, "_", " "), "/", ", ")
	fields := strings.Fields(m[2])
	var figures []figure
	for i := 0; i+1 < len(fields); i += 2 {
		value, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			continue
		}
		figures = append(figures, goFigure(name, input, value, fields[i+1])...)
	}
	return figures
}

// goFigure gives a benchmark's metric the name under which it is promised.
func goFigure(name, input string, value float64, unit string) []figure {
	switch unit {
	case "ns/op":
		if name == "Sync" {
			name = "compose.Sync"
		}
		return []figure{{Name: name, Input: input, Value: value / 1e3, Unit: "µs"}}
	case "requests/s":
		if name == "HTTPSync" {
			which := "without"
			if strings.Contains(input, "managedFields=true") {
				which = "with"
			}
			name = "HTTP sync hook, " + which + " managedFields"
		}
		return []figure{{Name: name, Input: input, Value: value, Unit: unit}}
	case "calls/s":
		name = "simulated hook calls"
		if strings.HasPrefix(input, "every") {
			name += ", by message"
		}
		return []figure{{Name: name, Input: "2 Jobs, 4 checkpoints; " + input, Value: value, Unit: unit}}
	case "requests/op":
		return []figure{{Name: name + ", requests", Input: input, Value: value, Unit: "requests"}}
	}
	return nil
}
