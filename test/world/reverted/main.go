// Command reverted takes the fix of every bug in the table of docs/simulation.md out,
// one at a time, and demands that all that the table names fails then, and passes with
// the fix. A patch that does not apply any more is an error.
//
//	go run ./test/world/reverted               every bug
//	go run ./test/world/reverted -only kueue   those whose patch has that in its name
//	go run ./test/world/reverted -v            with the last lines of what failed
//
// Nothing in the tree is changed: the compiler gets copies of the files (-overlay).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	only := flag.String("only", "", "only bugs whose patch has this `text` in its name")
	verbose := flag.Bool("v", false, "print the last lines of what failed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := reverted{verbose: *verbose, passes: map[string]error{}}
	if err := r.all(ctx, *only); err != nil {
		fmt.Printf("reverted: FAILED %s\n", err)
		os.Exit(1)
	}
	if r.wrong > 0 {
		fmt.Printf("reverted: FAILED %d bugs, %d commands show them, %d do not\n", r.bugs, r.shown, r.wrong)
		os.Exit(1)
	}
	fmt.Printf("reverted: ok %d bugs, %d commands show them without their fix and pass with it\n", r.bugs, r.shown)
}

// reverted is a run over the table.
type reverted struct {
	verbose            bool
	bugs, shown, wrong int
	// with is the tree as it is, and passes what was found of commands on it.
	with   *tree
	passes map[string]error
}

func (r *reverted) all(ctx context.Context, only string) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	all, err := bugs(root)
	if err != nil {
		return err
	}
	temporary, err := os.MkdirTemp("", "reverted-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	if r.with, err = r.tree(ctx, root, temporary, ""); err != nil {
		return err
	}
	for _, b := range all {
		if !strings.Contains(b.patch, only) {
			continue
		}
		r.bugs++
		fmt.Printf("%s: %s\n", b.patch, b.what)
		t, err := r.tree(ctx, root, temporary, b.patch)
		if err != nil {
			r.tell(b.patch, err)
			continue
		}
		for _, name := range b.shows {
			r.tell(name, r.shows(ctx, name, t))
		}
		if err := os.RemoveAll(t.folder); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (r *reverted) tree(ctx context.Context, root, temporary, patch string) (*tree, error) {
	folder, err := os.MkdirTemp(temporary, "tree-")
	if err != nil {
		return nil, err
	}
	if patch != "" {
		patch = filepath.Join(root, patches, patch+".patch")
	}
	return without(ctx, root, patch, folder)
}

// shows demands that a command passes on the tree as it is, and fails on the other.
func (r *reverted) shows(ctx context.Context, name string, t *tree) error {
	c, err := command(name)
	if err != nil {
		return err
	}
	known, ok := r.passes[name]
	if !ok {
		known = r.mustPass(ctx, c)
		r.passes[name] = known
	}
	if known != nil {
		return known
	}
	passed, output, err := c.run(ctx, t)
	if r.verbose || err != nil {
		fmt.Print(lastLines(output))
	}
	if err == nil && passed {
		err = fmt.Errorf("passes without the fix")
	}
	return err
}

func (r *reverted) mustPass(ctx context.Context, c show) error {
	passed, output, err := c.run(ctx, r.with)
	if err == nil && !passed {
		fmt.Print(lastLines(output))
		err = fmt.Errorf("fails with the fix, too")
	}
	return err
}

// tell prints what came of a command; without a name, of a patch.
func (r *reverted) tell(name string, err error) {
	if err != nil {
		r.wrong++
		fmt.Printf("    FAILED %s: %s\n", name, err)
		return
	}
	r.shown++
	fmt.Printf("    shown by %s\n", name)
}

// lastLines are those that say what failed.
func lastLines(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return "        " + strings.Join(lines[max(0, len(lines)-12):], "\n        ") + "\n"
}

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}
