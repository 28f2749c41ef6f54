package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// code is one package with its types.
type code struct {
	dir     string
	set     *token.FileSet
	files   []*ast.File
	sources []*source
	types   *types.Package
	info    *types.Info
}

// listed is what `go list` says of a package.
type listed struct {
	Dir        string
	ImportPath string
	Export     string
	GoFiles    []string
}

// load type-checks the packages, given as folders of the tree. What they import
// is read from the compiler's export data.
func load(ctx context.Context, folders ...string) ([]*code, error) {
	args := []string{"list", "-export", "-deps", "-json=Dir,ImportPath,Export,GoFiles"}
	for _, folder := range folders {
		args = append(args, "./"+folder)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	packages := map[string]listed{}
	byDir := map[string]listed{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		packages[p.ImportPath], byDir[p.Dir] = p, p
	}
	set := token.NewFileSet()
	imports := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(packages[path].Export)
	})
	var all []*code
	for _, folder := range folders {
		dir, err := filepath.Abs(folder)
		if err != nil {
			return nil, err
		}
		c, err := check(set, imports, folder, byDir[dir])
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

func check(set *token.FileSet, imports types.Importer, folder string, p listed) (*code, error) {
	c := &code{dir: folder, set: set, info: &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
		Defs: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
	}}
	for _, name := range p.GoFiles {
		text, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return nil, err
		}
		if err := c.parse(filepath.Join(folder, name), string(text)); err != nil {
			return nil, err
		}
	}
	var err error
	config := types.Config{Importer: imports}
	c.types, err = config.Check(p.ImportPath, set, c.files, c.info)
	return c, err
}

// parse adds a file.
func (c *code) parse(name, text string) error {
	base := c.set.Base()
	file, err := parser.ParseFile(c.set, name, text, parser.ParseComments)
	if err != nil {
		return err
	}
	c.files = append(c.files, file)
	c.sources = append(c.sources, &source{name: name, text: text, base: base})
	return nil
}
