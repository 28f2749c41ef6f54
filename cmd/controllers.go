package cmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rtj.dev/rtj/metacontroller/applier"
	"rtj.dev/rtj/metacontroller/webhook"
)

// controllerFiles are files with CompositeControllers.
type controllerFiles struct {
	names []string
	// passedOver are files of folders that hold other kinds, and which.
	passedOver []string
}

func (f *controllerFiles) add(command *cobra.Command) {
	command.Flags().StringArrayVarP(&f.names, "filename", "f", nil, "file with CompositeControllers (YAML, several documents, or JSON), a folder, of which files with other kinds are passed over, or - for standard input; may be repeated. Files are read once: restart after an edit")
}

// noFileArguments helps those who leave out -f.
func noFileArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return badInput("%s takes no arguments, got %q; a file is named by -f %s", cmd.CommandPath(), args[0], args[0])
	}
	return nil
}

// read returns the controllers of all files. Everything that does not depend on
// the cluster is checked.
func (f *controllerFiles) read(stdin io.Reader) ([]*applier.CompositeController, error) {
	var controllers []*applier.CompositeController
	origin := map[string]string{}
	for _, name := range f.names {
		paths, err := f.expand(name)
		if err != nil {
			return nil, err
		}
		found := len(controllers)
		for _, path := range paths {
			list, err := readControllers(path, stdin)
			var other *applier.KindError
			if path != name && errors.As(err, &other) && other.Only && other.Got.Kind != "" {
				f.passedOver = append(f.passedOver, fmt.Sprintf("%s (%s)", path, other.Got.Kind))
				continue
			}
			if err != nil {
				return nil, err
			}
			for _, c := range list {
				if first, twice := origin[c.Name]; twice {
					return nil, badInput("CompositeController %s is in %s and again in %s", c.Name, first, path)
				}
				origin[c.Name] = path
			}
			controllers = append(controllers, list...)
		}
		if len(controllers) == found {
			return nil, badInput("-f %s: no CompositeController in this folder; passed over: %s", name, strings.Join(f.passedOver, ", "))
		}
	}
	return controllers, nil
}

// expand returns the files that a name means.
func (f *controllerFiles) expand(name string) ([]string, error) {
	if name == "-" {
		return []string{name}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, badInput("-f %s: %w", name, cause(err))
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, badInput("-f %s: %w", name, cause(err))
	}
	var paths []string
	for _, entry := range entries {
		if !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
			paths = append(paths, filepath.Join(name, entry.Name()))
		}
	}
	if len(paths) == 0 {
		return nil, badInput("-f %s: no .yaml, .yml or .json file in this folder", name)
	}
	return paths, nil
}

func readControllers(path string, stdin io.Reader) ([]*applier.CompositeController, error) {
	var text []byte
	var err error
	if path == "-" {
		path = "standard input"
		text, err = io.ReadAll(stdin)
	} else {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, badInput("-f %s: %w", path, cause(err))
	}
	controllers, err := applier.Parse(text)
	if err != nil {
		return nil, badInput("%s: %w", path, oneLineEach(err))
	}
	for _, c := range controllers {
		if err := webhook.Validate(c); err != nil {
			return nil, badInput("%s: %w", path, oneLineEach(err))
		}
	}
	return controllers, nil
}

// cause leaves out the name of the file, which the message has already.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// oneLineEach makes the message of several faults one line.
func oneLineEach(err error) error { return &joined{err} }

type joined struct{ error }

func (e *joined) Error() string {
	return strings.Join(strings.FieldsFunc(e.error.Error(), func(r rune) bool { return r == '\n' }), "; ")
}

func (e *joined) Unwrap() error { return e.error }
