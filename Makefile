# `make` or `make help` lists the targets. Everything runs from a fresh clone with Go and make alone; servers that
# tests need are fetched and started by the tests themselves.

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
DURATION ?= 20s
ROWS     ?= 1000000
FUZZTIME ?= 10s
# Not taken from the environment, where names this short mean other things.
PORT  = 9092
TOPIC = order.events
N     = 0
KAFKA =
OUT   =

BIN := bin/cdc-outbox
GO  := go

# The race detector needs a C compiler; the product does not (CGO_ENABLED=0).
CC_FOUND := $(shell command -v "$$($(GO) env CC)" 2>/dev/null)
ifeq ($(CC_FOUND),)
RACE :=
NO_RACE_NOTE = @echo "note: no C compiler found, so the tests run without the race detector; install gcc and libc6-dev to have it"
else
RACE := -race
# Otherwise each process with the detector sleeps a second before it exits, and a test binary is one for each package.
export GORACE ?= atexit_sleep_ms=0
NO_RACE_NOTE = @:
endif

# Linters and gotestsum are pinned in tools/go.mod and tools/golangci/go.mod, apart from the product's own dependencies.
TOOLS := .cache/bin
GOLANGCI := $(TOOLS)/golangci-lint
PROSE := $(TOOLS)/prose
WAITS := $(TOOLS)/waits
GOTESTSUM := $(TOOLS)/gotestsum
DEPGUARD := $(TOOLS)/depguard
GOVULNCHECK := $(TOOLS)/govulncheck
# Directories with build-tagged files are linted with their tag on.
LINT_TAGS := e2e,interop

# A directory in memory with room for the servers of tests, see EnvMemory in test/testkit/scratch, and for the programs
# of the tests: making the many and large files of a run costs a disk as much time as the tests take.
MEMORY := $(shell [ "$$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 {print $$4}')" -ge 8000000 ] 2>/dev/null && echo /dev/shm)
test test-versions browser: export CDC_OUTBOX_TEST_MEMORY ?= $(MEMORY)
ifneq ($(MEMORY),)
ifeq ($(shell f=$$(mktemp $(MEMORY)/cdc-outbox-XXXXXX) && chmod +x $$f && $$f && echo yes; rm -f $$f),yes)
test test-versions browser: export TMPDIR ?= $(MEMORY)
endif
endif

# $(call gotest,FLAGS,PACKAGES). RERUN=1, as .ci/run sets it, runs what fails once more, alone, and names what passes then.
ifdef RERUN
gotest = .ci/gotest "$(2)" $(1)
GOTEST := $(GOTESTSUM) # what runs tests so needs
else
gotest = $(GO) test $(1) $(2)
endif

.DEFAULT_GOAL := help
.PHONY: help build test unit e2e soak conformance demo kafka topic consume bench bench-table bench-floor bench-latency bench-consumer bench-topics lint vet imports links vuln fuzz fmt docs compose-check clean

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# What a build says of itself where Go does not see the repository. -buildvcs=auto records the same where it does.
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS  := -s -w -X main.version=$(VERSION) -X github.com/cdc-outbox/cdc-outbox/internal/base/build.revision=$(REVISION)

# Without its pages about traces gRPC does not link html/template, see `links`.
TAGS := grpcnotrace

build: ## build the static binary bin/cdc-outbox
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=auto -tags $(TAGS) -ldflags "$(LDFLAGS)" -o $(BIN) ./cmd/cdc-outbox

# What the archives and packages of a release have beside the program.
.PHONY: release-files
release-files: build ## write manual pages and completions for bash, zsh and fish into .cache/release
	@rm -rf .cache/release; mkdir -p .cache/release/man .cache/release/completions
	@$(BIN) man .cache/release/man; gzip -9n .cache/release/man/*.1
	@for s in bash zsh fish; do $(BIN) completion $$s > .cache/release/completions/cdc-outbox.$$s; done
	@ls .cache/release/man | wc -l | xargs -I{} echo "{} manual pages"

IMAGE_PLATFORMS := linux/amd64 linux/arm64
.PHONY: image
image: ## build the container image for amd64 and arm64 as an OCI layout in .cache/image, without a container engine, and check it
	@rm -rf .cache/image; set -e; args=; for p in $(IMAGE_PLATFORMS); do \
		CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -trimpath -tags $(TAGS) -ldflags "$(LDFLAGS)" -o .cache/image-bin/$$p/cdc-outbox ./cmd/cdc-outbox; \
		args="$$args $$p=$(CURDIR)/.cache/image-bin/$$p/cdc-outbox"; done; \
	[ "$$(id -u)" != 0 ] || start=-start; \
	cd tools && GOWORK=off $(GO) test ./image && GOWORK=off $(GO) run ./image -out $(CURDIR)/.cache/image $$start -version $(VERSION) -revision $(REVISION) \
		-created "$$(TZ=UTC git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ 2>/dev/null || echo 1970-01-01T00:00:00Z)" $$args

test: $(GOTEST) ## unit and integration tests with the race detector, on the default Postgres, and 200 seeds of the simulation; five to ten minutes; a line per package, none while it compiles
	$(NO_RACE_NOTE)
	$(call gotest,$(RACE) -timeout 30m -p 3 -parallel 6,work)
	@$(MAKE) --no-print-directory models simulate SEEDS=200

.PHONY: browser
browser: $(GOTEST) ## the page in a real browser (needs Chromium; another one: CDC_OUTBOX_TEST_BROWSER=path); two minutes
	@export CDC_OUTBOX_TEST_BROWSER="$${CDC_OUTBOX_TEST_BROWSER:-chromium}"; \
		$(call gotest,$(RACE) -timeout 30m -parallel 4 -run "^TestThePage",./cmd/cdc-outbox) && \
		$(call gotest,$(RACE) -timeout 30m -parallel 4,./internal/watch/page)

.PHONY: models
models: $(GOTEST) ## the models of the tracker and of two producers in full: with the race detector or -short they are cut
	$(call gotest,-count=1,./offsets ./test/simulation/pair)

# The overlay of Go's runtime makes a run repeatable (test/simulation/replay); the first use compiles everything again.
SEEDS := 2000
.PHONY: simulate mutants
simulate: ## the real connector and the real polling relay in virtual time, 2,000 seeds each in two processes; SEEDS=1000000 for a soak, FIRST=1 to begin elsewhere, SEED=7 to show one, STEPS=1,4 for some of its steps, SOURCE=polling for one of that source
	@flags="-overlay .cache/replay/overlay.json -tags replay"; \
		$(GO) run ./test/simulation/replay .cache/replay || { flags=; echo "the seeds run without exact repetition"; }; \
		$(GO) test $$flags -c -o .cache/simulation.test ./test/simulation
	@if [ -n "$(SEED)" ]; then SIMULATION_SEED=$(SEED) SIMULATION_STEPS=$(STEPS) SIMULATION_SOURCE=$(SOURCE) .cache/simulation.test -test.run '^TestSeed$$' -test.v; else \
		first=$${FIRST:-1}; half=$$(( $(SEEDS) / 2 )); export SIMULATION_SEEDS=$$half; \
		SIMULATION_FIRST=$$(( first + half )) .cache/simulation.test -test.run '^Test(Polling)?Seeds$$' -test.v -test.timeout 0 & other=$$!; \
		SIMULATION_FIRST=$$first .cache/simulation.test -test.run '^Test(Seeds|PollingSeeds|Replay)$$' -test.v -test.timeout 0; here=$$?; \
		wait $$other && [ $$here = 0 ]; fi

mutants: ## plant one bug after the other and name the first seed of the simulation that fails; ten minutes
	$(GO) run ./test/simulation/mutants

# What differs between the major versions of Postgres: slots, publications, setup, the stream itself, the monitor's query.
PG_VERSIONS := 14 15 16 17 18
PG_TESTS := ^(TestScripts|TestVersions|TestSetup|TestEnsure|TestPreflight|TestRunMistakes|TestRunStreams|TestRunReleases|TestSlot|TestCheckpoint|TestStandby|TestHotStandby|TestChangesOfTheOutbox|TestPublicationIsWatched|TestSnapshotPublishes|TestServerEncodings|TestRenewal|TestLogicalMessages|TestPartitionedOutbox|TestPlantedFunctions|TestStoredGenerated|TestGenerated|TestWaitForTheRelay)
# The end-to-end tests that are repeated on each version.
PG_E2E := ^(TestKill|TestSIGTERM|TestPostgresCrashes|TestWaitingForKafkaDoesNotDelay|TestFailover|TestWaitingInstance)
.PHONY: test-versions matrix
PG_PACKAGES := ./replication/ ./internal/postgres/ ./internal/postgres/setup/ ./internal/postgres/outboxtable/ ./slotmonitor/ ./internal/relay/polling/ ./test/simulation/walsender/ ./cmd/cdc-outbox/
# On 15 only the tests that name it.
PG_TESTS_15 := ^(TestPartitionedOutbox|TestGeneratedColumns)$$
test-versions: $(GOTEST) ## what depends on the version of Postgres, on 14, 16, 17 and 18, and on 15 the tests that name it (make test runs the default one); four to eight minutes
	@printf '%s\n' $(PG_VERSIONS) | xargs -P 2 -I{} sh -c 'run="$(PG_TESTS)" packages="$(PG_PACKAGES)"; \
		[ {} != 15 ] || { run="$(PG_TESTS_15)" packages="./cmd/cdc-outbox/ ./internal/postgres/setup/"; }; \
		out=$$(CDC_OUTBOX_TEST_PG_VERSION={} $(call gotest,$(RACE) -timeout 30m -run "$$run",$$packages) 2>&1); \
		status=$$?; printf "PostgreSQL %s\n%s\n" {} "$$out"; exit $$status'

matrix: build ## every test that needs Postgres, and the core of e2e, on one version after the other; VERSIONS="14 15 16 17 18"
	@set -e; for v in $${VERSIONS:-14 15 16 17 18}; do echo "PostgreSQL $$v"; \
		CDC_OUTBOX_TEST_PG_VERSION=$$v $(GO) test $(RACE) -count=1 $(PG_PACKAGES) ./test/outbox/ ./test/inbox/; \
		CDC_OUTBOX_TEST_PG_VERSION=$$v $(GO) test $(RACE) -tags e2e -count=1 -timeout 20m -run '$(PG_E2E)' ./test/e2e/; done

# Which files and tests count: the producer's core and recovery; the checkpoint with its tests against Postgres and the
# simulation. FLAGS="-files restoredserver.go -again" chooses others, see tools/mutation/main.go.
PKG := ./offsets
MUTATE_./internal/sink/kafka := -slowest 3s -files 'partition.go,send.go,recovery.go,batchsplit.go,refusal.go,refusedrecord.go,partitionsremoved.go,producerid.go,ownership.go,abandon.go,transaction.go,transactionrecovery.go,transactionsteps.go,transactionerrors.go,fencing.go,batch.go,record.go,timestamp.go,backoff.go'
MUTATE_./internal/postgres := -files restoredserver.go
MUTATE_./replication := -long -slowest 20s -run '^(TestCheckpoint|TestCompare|TestWhich|TestStandby|TestSeeds)' -tests ./test/simulation -files 'checkpoint*.go'
FLAGS = $(MUTATE_$(PKG))
.PHONY: mutation
mutation: $(TOOLS)/mutation ## how many small changes of a package its tests notice: PKG=./internal/relay/connector; minutes
	@$(TOOLS)/mutation $(FLAGS) $(PKG)

unit: ## unit tests only: no servers, 40 to 50 seconds; names the ten slowest packages
	@.ci/unit

e2e: build $(GOTEST) ## the binary against real Postgres and real Kafka (needs Java 17 and Maven), 18 minutes
	$(NO_RACE_NOTE)
	$(call gotest,$(RACE) -tags e2e -count=1 -timeout 45m -parallel 3,./test/e2e/...)

.PHONY: real
real: $(GOTEST) ## the producer, the readers, the publisher, the consumer and the simulated broker beside real Kafka, five minutes
	$(NO_RACE_NOTE)
	$(call gotest,$(RACE) -tags e2e -count=1 -timeout 30m -run '^TestReal',./internal/sink/kafka/... ./publisher/ ./test/inbox/consumer/ ./test/simulation/broker/)
	$(call gotest,$(RACE) -tags e2e -count=1 -timeout 30m,./test/testkit/kafka/)

soak: build interop ## make e2e with each fault as often and as long as promised, an hour; KAFKA=3.9 or 2.8 for all of it on that version
	$(NO_RACE_NOTE)
	CDC_OUTBOX_TEST_SOAK=1 CDC_OUTBOX_TEST_KAFKA=$(KAFKA) $(GO) test $(RACE) -tags e2e -count=1 -timeout 120m -v ./test/e2e/...

.PHONY: interop
interop: $(GOTEST) ## what Java's clients, librdkafka, kafkajs and franz-go see of the same records, and consumers in three languages that keep the ledger, six minutes (needs a JDK, Maven, Python with venv, npm); KAFKA=3.9 or 2.8
	CDC_OUTBOX_TEST_KAFKA=$(KAFKA) $(call gotest,-tags interop -count=1 -timeout 30m -v,./test/interop)

conformance: ## run real Debezium over the cases of testdata/debezium and write down what it does (needs Java 17 and Maven), a minute
	$(GO) test -count=1 ./test/conformance -capture
	@git diff --stat -- testdata/debezium

demo: ## Postgres, a Kafka stand-in, a writer, a consumer and the connector, which is killed during the run, with a verdict; DURATION=20s
	$(GO) run ./test/demo -duration $(DURATION)

kafka: bin/broker ## one real Kafka in the foreground on 127.0.0.1:9092 (needs Java 17 and Maven); PORT=9092 TOPICS="order.events"
	@exec bin/broker run -port $(PORT) $(TOPICS)

topic: bin/broker ## create a topic there: TOPIC=order.events
	@bin/broker create -port $(PORT) $(TOPIC)

consume: bin/broker ## print a topic from the beginning until Ctrl-C, or N records: TOPIC=order.events N=1
	@exec bin/broker consume -port $(PORT) -n $(N) $(TOPIC)

# Built rather than `go run`, which does not pass signals on. Go knows best whether it is up to date.
.PHONY: bin/broker
bin/broker:
	@$(GO) build -o $@ ./test/testkit/broker

bench: build ## throughput over the same WAL: bare readers, pg_recvlogical, cdc-outbox, with DEBEZIUM=1 Debezium (DEBEZIUM_ROUNDS=2 for fewer rounds of it); ROWS=1000000 OUT=file for benchstat
	$(GO) run ./test/bench throughput -rows $(ROWS) $(if $(OUT),-out $(OUT)) $(if $(DEBEZIUM_ROUNDS),-debezium-rounds $(DEBEZIUM_ROUNDS)) $(BENCH_FLAGS)

bench-table: ## put the tables of a run into docs/performance.md: OUT=file that make bench OUT=file wrote; README.md quotes them
	$(GO) run ./test/bench table $(OUT) docs/performance.md

bench-floor: build ## a small load, a minute: fails where the connector is far slower than bare readers beside it
	$(GO) run ./test/bench floor

bench-consumer: ## inbox/consumer beside loops written by hand, over the same topic, ledger and servers
	$(GO) run ./test/bench consumer $(BENCH_FLAGS)

bench-topics: build ## the same rows to one topic and to a thousand topics of 12 partitions
	$(GO) run ./test/bench topics $(BENCH_FLAGS)

bench-latency: build ## commit -> consumer latency at 500 transactions/s
	$(GO) run ./test/bench latency $(BENCH_FLAGS)

lint: tidy-check vet waits golangci prose imports links pure rules ## golangci-lint (gofumpt and staticcheck included), vet, sleeps in tests, English, import directions, what the binary links, Prometheus rules

vet:
	$(GO) vet -tags $(LINT_TAGS) work

.PHONY: waits
waits: $(WAITS) ## tests that sleep in real time or give up early; //waits:ok REASON allows one wait, see tools/waits/main.go
	cd tools && GOWORK=off $(GO) test ./waits
	$(GO) vet -vettool=$(abspath $(WAITS)) -tags $(LINT_TAGS) work

ONLY    :=
MODULES := $(filter-out tools/golangci,$(patsubst %/,%,$(dir $(shell git ls-files go.mod '*/go.mod'))))
OUTSIDE_THE_WORKSPACE := tools*|deploy/testdata*|test/interop/testdata*
.PHONY: golangci prose
golangci: $(GOLANGCI) ## golangci-lint with .golangci.yml; ONLY=replication for one directory
	@set -e; for m in $(or $(ONLY),$(MODULES)); do \
		case $$m in $(OUTSIDE_THE_WORKSPACE)) work=off ;; *) work= ;; esac; echo "golangci-lint in $$m"; \
		(cd $$m && GOWORK=$$work $(abspath $(GOLANGCI)) run -c $(CURDIR)/.golangci.yml \
			--max-issues-per-linter 0 --max-same-issues 0 ./...); done

prose: $(PROSE) ## words, log messages, test names, line breaks of text and comments; ONLY=docs for one directory
	cd tools && GOWORK=off $(GO) test ./prose
	@$(PROSE) -paths '$(ONLY)'

.PHONY: wrap
wrap: $(PROSE) ## rewrap paragraphs of Markdown and Go comments that the prose check reports; ONLY=docs
	$(PROSE) -wrap -paths '$(ONLY)'
	git diff --stat

imports: $(DEPGUARD)
	.ci/depguard-selftest $(abspath $(DEPGUARD))
	GOFLAGS="$$($(GO) env GOFLAGS) -tags=$(LINT_TAGS)" $(DEPGUARD) work

# On Windows only the binary: the tests start servers in ways that Windows has no equivalent of.
.PHONY: cross
cross: ## build the binary for the other platforms, and vet what is particular to macOS
	@set -e; for p in linux/arm64 darwin/arm64 darwin/amd64 windows/amd64; do echo $$p; \
		CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -trimpath -tags $(TAGS) -o /dev/null ./cmd/cdc-outbox; done
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) vet -trimpath -tags $(TAGS) ./... ./outbox/... ./inbox/...

# Test machinery that reached the production binary through some detour would show here, not in depguard. Nor may it
# link a call of a method by a name that is known at run time, as templates make them: the linker then keeps every
# exported method of every type, a sixth of the binary.
FORBIDDEN_LINKS := github.com/twmb/franz-go/pkg/(kfake|kadm)|chromedp|fergusstrange/embedded-postgres|stretchr/testify|lib/pq|cdc-outbox/test
links:
	@found=$$($(GO) list -deps ./cmd/cdc-outbox | grep -E '$(FORBIDDEN_LINKS)' || true); \
	if [ -n "$$found" ]; then echo "cmd/cdc-outbox must not link:"; echo "$$found"; exit 1; fi; \
	echo "cmd/cdc-outbox links no test machinery ($$($(GO) list -deps ./cmd/cdc-outbox | wc -l) packages looked at)"
	@mkdir -p .cache; rm -f .cache/links; CGO_ENABLED=0 $(GO) build -trimpath -tags $(TAGS) -ldflags -dumpdep -o .cache/links ./cmd/cdc-outbox 2>.cache/links.txt; \
	grep -q '^main.main -> ' .cache/links.txt || { cat .cache/links.txt; exit 1; }; \
	if grep '<ReflectMethod>' .cache/links.txt | head -3 | grep .; then echo "cmd/cdc-outbox must not call methods by name"; exit 1; fi; \
	echo "cmd/cdc-outbox calls no method by name"

# Values in, values out: no detour may bring a connection to Postgres along.
PURE := ./offsets ./router ./pgoutput ./internal/sink/... ./internal/deadletter ./internal/tools/compare ./internal/tools/archive
.PHONY: pure
pure:
	@found=$$($(GO) list -deps $(PURE) | grep -E 'github.com/jackc/' || true); \
	if [ -n "$$found" ]; then echo "$(PURE) must not link:"; echo "$$found"; exit 1; fi; \
	echo "$(PURE) link no jackc package"

# A module of its own: Prometheus's parser brings much along that the product's go.mod need not know.
.PHONY: rules
rules: ## alert rules fired by Prometheus's own engine, over series and over recorded situations; dashboards against Grafana's schema and a recorded scrape
	cd deploy/testdata/rules && GOWORK=off $(GO) test -count=1 .

.PHONY: situations
situations: ## record what Prometheus sees of healthy and faulty situations, which the test of the alert rules replays; 18 minutes
	$(GO) run ./test/situations -out deploy/testdata/rules/situations

.PHONY: scrapes
scrapes: build ## record what a running connector and consumer show to Prometheus, which the dashboard's test reads (Java 17, Maven), a minute
	CDC_OUTBOX_TEST_SCRAPES=$(abspath deploy/testdata/rules/scrapes) $(GO) test -tags e2e -count=1 -run '^TestRecordScrapes$$' ./test/e2e/

vuln: $(GOVULNCHECK) ## known vulnerabilities in what the code calls (needs the vulnerability database online)
	$(GOVULNCHECK) ./... ./outbox/... ./inbox/...

$(TOOLS)/%: tools/go.mod tools/go.sum
	@mkdir -p $(TOOLS)
	GOWORK=off $(GO) build -modfile=tools/go.mod -o $@ $$(awk '/^\t/ && $$1 ~ /\/$*$$/ {print $$1; exit}' tools/go.mod)

# Two and a half minutes on 2 cores when nothing is cached; once for each version.
$(GOLANGCI): tools/golangci/go.mod tools/golangci/go.sum
	@mkdir -p $(TOOLS)
	cd tools/golangci && CGO_ENABLED=0 GOWORK=off $(GO) build -trimpath -ldflags "-s -w" -o $(abspath $@) \
		github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(PROSE): $(wildcard tools/prose/*.go) tools/go.mod
	@mkdir -p $(TOOLS)
	cd tools && GOWORK=off $(GO) build -o $(abspath $@) ./prose

$(WAITS): $(wildcard tools/waits/*.go) tools/go.mod
	@mkdir -p $(TOOLS)
	cd tools && GOWORK=off $(GO) build -o $(abspath $@) ./waits

# Before Go 1.27 a target can fail with nothing but this when its time is up, https://go.dev/issue/75804. What is found always comes
# with "Failing input".
FUZZ_TIME_UP := grep -q '^    context deadline exceeded$$' .cache/fuzz.log && ! grep -q 'Failing input' .cache/fuzz.log

$(TOOLS)/mutation: $(wildcard tools/mutation/*.go) tools/go.mod
	@mkdir -p $(TOOLS)
	cd tools && GOWORK=off $(GO) build -o $(abspath $@) ./mutation

fuzz: ## every fuzz target for FUZZTIME=10s; minutes
	@mkdir -p .cache
	@for pkg in $$($(GO) list work); do \
		for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$f"; \
			{ $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$pkg 2>&1; echo $$? >.cache/fuzz.status; } | tee .cache/fuzz.log; \
			if [ "$$(cat .cache/fuzz.status)" != 0 ]; then \
				$(FUZZ_TIME_UP) || exit 1; echo "the time was up while an input was tried; nothing was found"; \
			fi; \
		done; \
	done

# The charts of the page are drawn by uPlot, whose files are committed. npm checks the package against the registry's hash,
# sha256sum each file against the reviewed version; for another version review it, and write SHA256SUMS again.
UPLOT := 1.6.32
UPLOT_DIR := internal/watch/page/assets/uplot
.PHONY: uplot
uplot: ## fetch the page's chart library again and compare it with its recorded checksums (needs npm)
	@set -e; work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; \
	(cd "$$work" && npm pack --silent uplot@$(UPLOT) >/dev/null && tar xzf uplot-$(UPLOT).tgz && \
		mv package/LICENSE package/dist/uPlot.iife.min.js package/dist/uPlot.min.css .); \
	cp $(UPLOT_DIR)/SHA256SUMS "$$work"; (cd "$$work" && sha256sum -c SHA256SUMS); \
	cp "$$work"/LICENSE "$$work"/uPlot.iife.min.js "$$work"/uPlot.min.css $(UPLOT_DIR)/; git status --short -- $(UPLOT_DIR)

.PHONY: tidy tidy-check
tidy: ## go mod tidy for every module of the workspace
	.ci/tidy

tidy-check:
	.ci/tidy --check

docs: ## generate docs/bugs.md, docs/promises.md, docs/supported.md, docs/configuration.md, the JSON Schema beside it and the help texts of the keys
	$(GO) generate ./internal/config
	$(GO) test ./docs -run '^Test(Bugs|Promises|Supported)$$' -update

fmt: $(GOLANGCI) ## gofumpt in place
	@for m in $(MODULES); do (cd $$m && $(abspath $(GOLANGCI)) fmt -c $(CURDIR)/.golangci.yml ./...); done

compose-check: ## check docker-compose.yml, deploy/ and the dashboard, without a container engine
	$(GO) test -count=1 ./deploy/...
	@if docker compose version >/dev/null 2>&1; then docker compose config --quiet && echo "docker compose config: ok"; \
	else echo "note: no docker compose plugin here, so only the tests in deploy/ have read docker-compose.yml"; fi

# A module of its own: Kubernetes' types, kustomize and Helm bring much along that the product's go.mod need not know.
.PHONY: deploy-check prometheusrule
deploy-check: ## deploy/kubernetes and the Helm chart against the types of the API, the restricted pod policy and each other; no cluster
	cd deploy/testdata/kubernetes && GOWORK=off $(GO) test -count=1 .

prometheusrule: ## generate the PrometheusRule of deploy/kubernetes and the rules of the Helm chart from deploy/prometheus/rules.yml
	$(GO) test -count=1 -run '^TestPrometheusRule$$' ./deploy -update

.PHONY: release-check
release-check: release-files ## .goreleaser.yaml, the workflows and what they name, without goreleaser and without GitHub
	cd deploy/testdata/release && GOWORK=off $(GO) test -count=1 .

clean: ## remove what was built
	rm -rf bin dist .cache
