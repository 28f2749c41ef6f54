package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
)

// countOne counts the command itself; its output is shown when it fails.
func countOne(cmd *exec.Cmd) figures {
	out, err := cmd.CombinedOutput()
	if err != nil {
		os.Stdout.Write(out)
		fmt.Printf("    %v\n", err)
		return figures{failed: 1}
	}
	return figures{passed: 1}
}

// event is one line of `go test -json`.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// countGo counts tests and shows the output of those that failed, and of
// packages that do not build.
func countGo(cmd *exec.Cmd) figures {
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		fmt.Printf("    %v\n", err)
		return figures{failed: 1}
	}
	cmd.Stderr = os.Stdout
	if err := cmd.Start(); err != nil {
		fmt.Printf("    %v\n", err)
		return figures{failed: 1}
	}
	f := readEvents(pipe)
	if err := cmd.Wait(); err != nil && f.failed == 0 {
		fmt.Printf("    %v\n", err)
		f.failed++
	}
	return f
}

func readEvents(r io.Reader) figures {
	var f figures
	output := map[string]*bytes.Buffer{}
	failed := map[string]int{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Println(lines.Text())
			continue
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "output", "build-output":
			if output[key] == nil {
				output[key] = &bytes.Buffer{}
			}
			output[key].WriteString(e.Output)
		case "fail":
			// The package fails with its test; it counts where none of its tests did.
			if e.Test != "" || failed[e.Package] == 0 {
				f.failed++
				failed[e.Package]++
			}
			os.Stdout.Write(bufferOf(output[key]))
			delete(output, key)
		case "pass", "skip":
			if e.Test != "" && e.Action == "pass" {
				f.passed++
			} else if e.Test != "" {
				f.skipped++
				os.Stdout.Write(bufferOf(output[key]))
			}
			delete(output, key)
		}
	}
	return f
}

func bufferOf(b *bytes.Buffer) []byte {
	if b == nil {
		return nil
	}
	return b.Bytes()
}

var pytestCount = regexp.MustCompile(`(\d+) (passed|failed|skipped|error)`)

// countPytest streams pytest's output and reads its last line.
func countPytest(cmd *exec.Cmd) figures {
	var out bytes.Buffer
	cmd.Stdout = io.MultiWriter(os.Stdout, &out)
	cmd.Stderr = cmd.Stdout
	err := cmd.Run()
	var f figures
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	for _, m := range pytestCount.FindAllSubmatch(lines[len(lines)-1], -1) {
		n, _ := strconv.Atoi(string(m[1]))
		switch string(m[2]) {
		case "passed":
			f.passed += n
		case "skipped":
			f.skipped += n
		default:
			f.failed += n
		}
	}
	if err != nil && f.failed == 0 {
		fmt.Printf("    %v\n", err)
		f.failed++
	}
	return f
}
