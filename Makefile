# Works with any Go that can fetch a toolchain, also where GOTOOLCHAIN=local is set.
export GOTOOLCHAIN := go1.27.3
# A running cluster (host:port) to use in place of an embedded or downloaded one.
export KAFKA

FAULTS ?= 20
SEED ?= 1
NODES ?= 1
FUZZTIME ?= 10s
OUT ?= bin/contender

.DEFAULT_GOAL := help
.PHONY: help build fmt lint test cover fuzz demo parity bench contender chaos takeover soak clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## compile everything, in all modules
	@.ci/each go build ./...

fmt: ## format everything with the toolchain's gofmt
	@"$$(go env GOROOT)/bin/gofmt" -w .

lint: ## gofmt, go vet and staticcheck, in all modules
	@.ci/lint

test: ## everything: unit tests with -race, then integration against a real Apache Kafka (KAFKA=host:port: against that one)
	@.ci/test

cover: ## test coverage of the library, by package
	@go test -cover ./...

fuzz: ## every fuzz target for FUZZTIME=10s
	@.ci/fuzz $(FUZZTIME)

demo: ## the flights job with an embedded broker (KAFKA=host:port: on that cluster)
	@cd examples && go run ./flights

parity: ## Kafka Streams' test vectors, passed/total by family (KOLK_PARITY=dir: other vectors)
	@cd integration && go run ./cmd/parity

bench: ## kolk, Kafka Streams and a raw loop on one real broker: SCENARIO=count,window,join,ssjoin,dedup N=2000000 records RUNS=3 (dedup alone: N=50000000 RUNS=1; ARGS=-h: more)
	@.ci/tools java javac mvn
	@cd integration && go run ./cmd/bench $(if $(SCENARIO),-scenarios '$(SCENARIO)') $(if $(N),-records $(N)) $(if $(RUNS),-runs $(RUNS)) $(ARGS)

contender: ## build kolk's program for the benchmark at OUT=path
	@cd integration && go build -o '$(abspath $(OUT))' ./cmd/contender

chaos: ## kill instances and brokers at random and compare with a batch: FAULTS=20 SEED=1, JOB=flights for one job, NODES=3 for three brokers
	@.ci/tools java javac mvn
	@cd integration && go run ./cmd/chaos -faults $(FAULTS) -seed $(SEED) -nodes $(NODES) $(if $(JOB),-job $(JOB))

takeover: ## seconds from kill -9 to the first record processed elsewhere, commit latency, what a restart reads
	@.ci/tools java javac mvn
	@cd integration && go run ./cmd/takeover

soak: ## a minute of 30 minutes of event time a second, with ever new keys: prints what is kept, and fails if that grows (ARGS=-h: more)
	@cd integration && go run ./cmd/soak $(ARGS)

clean: ## remove what builds and tests left here and in Go's test cache; jars stay in KOLK_CACHE
	@rm -rf bin integration/bin integration/results*.json cover*.html
	@go clean -testcache
