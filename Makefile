# The two commands for newcomers are `make demo` and `make test`.
SHELL := /bin/sh
export CGO_ENABLED ?= 0
export GOFLAGS := -buildvcs=false $(filter-out -buildvcs=%,$(GOFLAGS))

VENV := .venv
S3SERVER := $(CURDIR)/bin/versitygw
DEV := go run ./test/cluster/cmd/dev
# CLUSTER=existing installs into the current kubeconfig context instead.
CLUSTER ?= local
SUITE ?=
RUNNER ?= embedded
METACONTROLLER ?=
NODE ?= process

.PHONY: demo test build dev-up dev-example dev-smoke dev-status dev-down e2e sim explore reverted mutation bench generate generate-check lint sdk-test sdk-test-torch venv clean

demo: venv ## the preempt-and-resume story on a local cluster, with its timeline
	go run ./test/demo

test: venv $(S3SERVER) ## everything that needs no cluster
	RTJ_S3SERVER=$(S3SERVER) go run ./test/check

build: ## the rtj binary, in bin/
	go build -trimpath -ldflags "-s -w" -o bin/rtj .

dev-up: $(if $(filter existing,$(CLUSTER)),,venv) ## the local cluster, NODE=process|kubelet; CLUSTER=existing installs into the current context
ifeq ($(CLUSTER),existing)
	$(DEV) up --existing
else
	$(DEV) up --operator --nodes fake,$(NODE)
endif

dev-example: ## examples/numpy with a queue and keys on the running local cluster
	$(DEV) example

dev-smoke: ## a quick check of the running local cluster
	$(DEV) smoke

dev-status: ## the components of the local cluster
	$(DEV) status

dev-down: ## end the local cluster and leave nothing behind
	$(DEV) down

e2e: venv ## end-to-end suites; SUITE=e2e|api|cluster|applier|election|manager|model|<test names>, RUNNER=embedded|metacontroller, NODE=process|kubelet, AGAIN=1: what failed once more
	go run ./test/e2e/run -suite '$(SUITE)' -runner '$(RUNNER)' -metacontroller '$(METACONTROLLER)' -node '$(NODE)' $(if $(AGAIN),-again)

sim: ## simulated worlds with faults; SEEDS=n of them, SEED_BASE=n the first, SEED=n one alone with all that happens in it
	go run ./test/world/sim $(if $(SEED),-seed $(SEED),-seeds $(or $(SEEDS),2000) -base $(or $(SEED_BASE),0))

explore: ## every order of the events of small worlds; WORLD=name one of them alone, ARGS for the other flags (-h)
	go run ./test/world/explore $(if $(WORLD),-world '$(WORLD)') $(ARGS)

reverted: venv ## takes every fix in the table of docs/simulation.md out, and sees whether its bug shows again; ONLY=text in a patch's name
	go run ./test/world/reverted -only '$(ONLY)'

# FILE=drain.go, SAMPLE=200, MUTANT=17, ARGS for the other flags (-h).
mutation: ## changes the core in many small ways and sees whether the tests notice
	go run ./test/mutation -file '$(FILE)' $(if $(SAMPLE),-sample $(SAMPLE)) $(if $(MUTANT),-mutant $(MUTANT)) $(ARGS)

bench: venv $(S3SERVER) ## benchmarks, one table; METACONTROLLER=binary measures it beside the applier
	RTJ_S3SERVER=$(S3SERVER) E2E_METACONTROLLER=$(if $(METACONTROLLER),$(abspath $(METACONTROLLER))) go run ./test/bench

generate: ## deepcopy functions and CRDs
	go run -C test/tools ./generate

generate-check: ## fails when generated files are not up to date
	go run -C test/tools ./generate --check

lint: venv
	go run ./test/check -label lint -only lint

sdk-test: venv $(S3SERVER)
	RTJ_S3SERVER=$(S3SERVER) go run ./test/check -label sdk-test -only sdk

sdk-test-torch: venv
	@echo "sdk-test-torch: FAILED 0 passed, 0 failed: the SDK has no PyTorch form yet"; exit 1

venv: $(VENV)/.made

# The SDK's modules are compiled once here, not by every process that starts.
$(VENV)/.made: sdk/python/pyproject.toml sdk/python/make-venv
	sdk/python/make-venv $(VENV)
	$(VENV)/bin/python -m compileall -q sdk/python/src
	@touch $@

# Tests of what talks to a store talk to a real S3 server.
$(S3SERVER): test/s3server/go.mod
	go build -C test/s3server -trimpath -ldflags "-s -w" -o $@ github.com/versity/versitygw/cmd/versitygw
	@touch $@

clean:
	rm -rf bin dist $(VENV)
