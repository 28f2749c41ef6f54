// Command kubelet-node gives the kubelet node of a local cluster namespaces of
// its own and joins them to the servers of this machine. See README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"rtj.dev/rtj/test/kubeletnode/gateway"
	"rtj.dev/rtj/test/kubeletnode/image"
	"rtj.dev/rtj/test/kubeletnode/namespaces"
)

func main() {
	// Namespaces belong to threads; entering one is for the first.
	runtime.LockOSThread()
	if os.Getenv("CNI_COMMAND") != "" {
		plugin()
		return
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet-node:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("needs a command: hold, gateway or enter")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	switch args[0] {
	case "hold":
		return hold(ctx, args[1:])
	case "gateway":
		return serve(ctx, args[1:])
	case "enter":
		return enter(args[1:])
	default:
		return fmt.Errorf("no command %q: hold, gateway or enter", args[0])
	}
}

// plugin is called by containerd. Errors go to standard output, as CNI wants.
func plugin() {
	if err := gateway.Plugin(os.Getenv, os.Stdin, os.Stdout); err != nil {
		_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"cniVersion": "0.4.0", "code": 100, "msg": err.Error()})
		os.Exit(1)
	}
}

func hold(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("hold", flag.ExitOnError)
	dir := flags.String("dir", "", "where the node keeps its data")
	addresses := flags.String("addresses", "", "further addresses of the node, comma-separated")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := namespaces.Hold(namespaces.Options{Dir: *dir, Addresses: strings.Split(*addresses, ",")}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// enter executes a program in the namespaces: enter PID PROGRAM ARGUMENTS.
func enter(args []string) error {
	if len(args) < 2 {
		return errors.New("enter needs the pid of the holder and a program")
	}
	holder, err := strconv.Atoi(args[0])
	if err != nil {
		return fmt.Errorf("pid %q: %w", args[0], err)
	}
	return namespaces.Exec(holder, args[1:])
}

func serve(ctx context.Context, args []string) error {
	var o gateway.Options
	images := map[string]image.Image{}
	flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
	flags.IntVar(&o.Holder, "holder", 0, "pid of the process that holds the node's namespaces")
	flags.IntVar(&o.APIServer, "api-server", 0, "port of the API server on the machine's loopback")
	flags.StringVar(&o.APIService, "api-service", "", "address and port of the API server's Service")
	port := func(list *[]int) func(string) error {
		return func(v string) error {
			n, err := strconv.Atoi(v)
			*list = append(*list, n)
			return err
		}
	}
	flags.Func("node-port", "port of the node's loopback that the machine has on its own (repeatable)", port(&o.NodePorts))
	flags.Func("machine-port", "port of the machine's loopback that pods have on theirs (repeatable)", port(&o.MachinePorts))
	flags.Func("pause", "program of the image pause", func(path string) (err error) {
		images["pause"], err = image.Pause(path)
		return err
	})
	flags.Func("image", "NAME=DIR, an environment of this machine (repeatable)", func(v string) (err error) {
		name, dir, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return errors.New("want NAME=DIR")
		}
		images[name], err = image.Host(dir)
		return err
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.Registry = image.NewRegistry(images)
	return gateway.Serve(ctx, o)
}
