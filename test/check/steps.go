package main

// goTest runs a module's tests. The output is JSON, from which they are counted.
func goTest(name, dir string) step {
	return step{group: "go", name: name, dir: dir, argv: []string{"go", "test", "-json", "./..."}, count: countGo}
}

func lint(name, dir string, argv ...string) step {
	return step{group: "lint", name: name, dir: dir, argv: argv, count: countOne}
}

// steps are everything that needs no cluster, quick ones first.
var steps = []step{
	lint("gofmt", ".", "sh", "-c", `out=$(git ls-files '*.go' | xargs gofmt -l); [ -z "$out" ] || { echo "not gofmt-ed:"; echo "$out"; exit 1; }`),
	lint("go vet", ".", "go", "vet", "./..."),
	lint("go vet, with the end-to-end suites", ".", "go", "vet", "-tags", "e2e", "./..."),
	lint("go vet of the process node", "test/node", "go", "vet", "./..."),
	lint("go vet of the kubelet node", "test/kubeletnode", "go", "vet", "./..."),
	lint("go vet of the CRD's tests", "test/crd", "go", "vet", "./..."),
	lint("go vet of the generator", "test/tools", "go", "vet", "./..."),
	lint("staticcheck", ".", "sh", "-c", "go build -C test/tools -o ../../bin/staticcheck honnef.co/go/tools/cmd/staticcheck && bin/staticcheck ./... && bin/staticcheck -tags e2e ./test/..."),
	lint("ruff", "sdk/python", "../../.venv/bin/ruff", "check", ".", "../../examples/numpy", "../../examples/static-site"),
	lint("ruff format", "sdk/python", "../../.venv/bin/ruff", "format", "--check", ".", "../../examples/numpy", "../../examples/static-site"),
	lint("mypy", "sdk/python", "../../.venv/bin/mypy"),
	{group: "generate", name: "generated files are up to date", dir: ".", argv: []string{"make", "--no-print-directory", "generate-check"}, count: countOne},
	goTest("Go: product, golden cases, lifecycle scripts", "."),
	goTest("Go: CRD schema and rules", "test/crd"),
	goTest("Go: generator of CRD and deepcopy", "test/tools"),
	goTest("Go: process node", "test/node"),
	goTest("Go: kubelet node", "test/kubeletnode"),
	{group: "sdk", name: "SDK", dir: "sdk/python", argv: []string{"../../.venv/bin/python", "-m", "pytest", "-n", "2"}, count: countPytest},
}
