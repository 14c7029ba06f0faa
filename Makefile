# Which commands does a newcomer need? `make` alone prints this list.
# Everything of substance is a Go program under scripts/; a target only names it.

SHELL     := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PKG       ?= ./...
TESTFLAGS ?=
NAME      ?=

# Two packages at a time and four tests in each keep two cores busy; more only
# makes servers and race-instrumented tests wait for each other.
GOTEST := -race -timeout 60m -p 2 -parallel 4
TOOL   := go tool -modfile=tools/go.mod

##@ See it work

.PHONY: demo
demo: ## Play the main failure stories on real servers and print the verdicts; `go run ./scripts/scenario --list` names all
	@go run ./scripts/stack up
	@go run ./scripts/scenario

.PHONY: scenario
scenario: ## Play one story: make scenario NAME=crash-after-publish
	@go run ./scripts/stack up
	@go run ./scripts/scenario $(NAME)

.PHONY: up
up: build ## Run the three services in the foreground, to play by hand (ctrl-C ends them)
	@go run ./scripts/stack up
	@owner=$$(go run ./scripts/stack env); eval "$$owner"; bin/migrations up
	@bin/up

.PHONY: down
down: ## End the services of `make up` and the servers; leave nothing running
	@go run ./scripts/up --stop
	@go run ./scripts/stack down

.PHONY: status
status: ## Say which servers run, where, and which versions they are
	@go run ./scripts/stack status

##@ Change it

.PHONY: build
build: ## Build static binaries into bin/
	@CGO_ENABLED=0 go build -o bin/ ./services/... ./migrations ./scripts/up

.PHONY: test
test: ## Compile, then run all tests on servers of their own: make test PKG=./pkg/... TESTFLAGS='-v -run Once'
	@echo "compiling first; with an empty build cache this takes minutes"
	@go run ./scripts/gotest --compile $(GOTEST) $(TESTFLAGS) $(PKG)
	@go run ./scripts/stack with -- go run ./scripts/gotest $(GOTEST) $(TESTFLAGS) $(PKG)

.PHONY: soak
soak: ## Run all tests five times while the machine is kept busy; `go run ./scripts/soak --help` has more
	@go run ./scripts/soak

.PHONY: bench
bench: ## Measure it on servers of its own (half an hour; nothing else should run): make bench NAME=relay-drain
	@go run ./scripts/bench $(NAME)

.PHONY: sabotage
sabotage: ## Remove each guard in a copy and see its test turn red: make sabotage NAME=no-mandatory
	@go run ./scripts/stack with -- go run ./scripts/sabotage $(NAME)

.PHONY: lint
lint: ## gofmt, vet, staticcheck, golangci-lint and the repository's own rules
	@changed=$$(gofmt -l .); if [ -n "$$changed" ]; then echo "gofmt would change: $$changed"; exit 1; fi
	go vet ./...
	$(TOOL) staticcheck ./...
	$(TOOL) golangci-lint run ./...
	go run ./scripts/check

.PHONY: fmt
fmt: ## Format all Go files
	@gofmt -w .

.PHONY: docs
docs: ## Write the generated pages again (docs/configuration.md)
	@go run ./scripts/check --write

.PHONY: clean
clean: down ## Stop everything, remove binaries and the servers' data
	@rm -rf bin .stack

.PHONY: help
help:
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
