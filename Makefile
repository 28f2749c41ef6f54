# The two commands for newcomers are `make demo` and `make test`.
SHELL := /bin/sh
export CGO_ENABLED ?= 0
export GOFLAGS := -buildvcs=false $(filter-out -buildvcs=%,$(GOFLAGS))

VENV := .venv
DEV := go run ./test/cluster/cmd/dev
# CLUSTER=existing installs into the current kubeconfig context instead.
CLUSTER ?= local
SUITE ?=
RUNNER ?= embedded
METACONTROLLER ?=
NODE ?= process

.PHONY: demo test build dev-up dev-smoke dev-status dev-down e2e sim bench generate generate-check lint sdk-test sdk-test-torch venv clean

demo: venv ## the preempt-and-resume story on a local cluster, with its timeline
	go run ./test/demo

test: venv ## everything that needs no cluster
	go run ./test/check

build: ## the rtj binary, in bin/
	go build -trimpath -ldflags "-s -w" -o bin/rtj .

dev-up: venv ## the local cluster; CLUSTER=existing installs into the current context
ifeq ($(CLUSTER),existing)
	$(DEV) up --existing
else
	$(DEV) up --operator
endif

dev-smoke: ## a quick check of the running local cluster
	$(DEV) smoke

dev-status: ## the components of the local cluster
	$(DEV) status

dev-down: ## end the local cluster and leave nothing behind
	$(DEV) down

e2e: venv ## end-to-end suites; SUITE=name, RUNNER=embedded|metacontroller, NODE=process|kubelet
	go run ./test/e2e/run -suite '$(SUITE)' -runner '$(RUNNER)' -metacontroller '$(METACONTROLLER)' -node '$(NODE)'

bench: venv ## benchmarks, one table
	go run ./test/bench

generate: ## deepcopy functions and CRDs
	go run -C test/tools ./generate

generate-check: ## fails when generated files are not up to date
	go run -C test/tools ./generate --check

lint: venv
	go run ./test/check -label lint -only lint

sdk-test: venv
	go run ./test/check -label sdk-test -only sdk

venv:
	@sdk/python/venv.sh $(VENV) dev

clean:
	rm -rf bin dist $(VENV)
