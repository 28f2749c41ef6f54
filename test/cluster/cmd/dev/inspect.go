package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"rtj.dev/rtj/test/cluster"
)

func status(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("status", flag.ContinueOnError)
	dir := dirFlag(flags)
	asJSON := flags.Bool("json", false, "print JSON")
	if err := parse(flags, args); err != nil {
		return err
	}
	c, err := cluster.Open(*dir)
	if err != nil {
		return err
	}
	all := c.Status(ctx)
	if *asJSON {
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(all); err != nil {
			return err
		}
	} else {
		printStatus(all)
	}
	for _, s := range all {
		if !s.Ready {
			return errSilent
		}
	}
	return nil
}

func printStatus(all []cluster.ComponentStatus) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "COMPONENT\tPID\tALIVE\tREADY\tPORT\tMEMORY\tAGE\tMESSAGE")
	var total int64
	for _, s := range all {
		age := "-"
		if s.Started != nil && s.Alive {
			age = time.Since(*s.Started).Round(time.Second).String()
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Name, number(s.PID), yesNo(s.Alive), yesNo(s.Ready),
			number(s.Port), megabytes(s.ResidentBytes), age, s.Message)
		total += s.ResidentBytes
	}
	fmt.Fprintf(table, "\t\t\t\t\t%s\t\t\n", megabytes(total))
	_ = table.Flush()
}

func number(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func megabytes(n int64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

func smoke(ctx context.Context, args []string) error {
	c, _, err := open("smoke", args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	summary, err := c.Smoke(ctx)
	if err != nil {
		return fmt.Errorf("smoke: %w", err)
	}
	fmt.Println("smoke: ok", summary)
	return nil
}

func probe(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("probe", flag.ContinueOnError)
	node := flags.String("node", "process", "also what this kind of node needs: process or kubelet")
	if err := parse(flags, args); err != nil {
		return err
	}
	findings := cluster.Probe()
	switch *node {
	case "process":
	case "kubelet":
		findings = append(findings, cluster.ProbeKubeletNode()...)
	default:
		return fmt.Errorf("--node %q: must be process or kubelet", *node)
	}
	bad := false
	for _, f := range findings {
		mark := "ok  "
		if f.Problem != "" {
			mark, bad = "FAIL", true
		}
		fmt.Printf("%s  %s\n", mark, strings.TrimSpace(f.What+": "+f.Seen))
		if f.Problem != "" {
			fmt.Println("      ", f.Problem)
		}
	}
	if bad {
		return errSilent
	}
	return nil
}

func buildPrograms(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	kubelet := flags.Bool("kubelet", false, "also those of a kubelet node")
	if err := parse(flags, args); err != nil {
		return err
	}
	where, err := cluster.BuildPrograms(ctx, *kubelet, os.Stdout)
	if err != nil {
		return err
	}
	fmt.Println("programs are in", where)
	return nil
}

func logs(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("logs", flag.ContinueOnError)
	dir := dirFlag(flags)
	lines := flags.Int("n", 50, "number of lines")
	if err := parse(flags, args); err != nil {
		return err
	}
	c, err := cluster.Open(*dir)
	if err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("logs needs one component")
	}
	fmt.Println(c.LogTail(flags.Arg(0), *lines))
	return nil
}
