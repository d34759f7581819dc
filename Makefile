# Commands of the project. `make run` and `make test` need only python3.11 (or newer) with venv, and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ROW ?=
SHORT ?=
PYSPARK ?=
# Python processes that the tests start share bytecode, also where the environment has turned it off.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run test test-long test-compiled docs lock wheel compat spark demo docker bench campaign plots clean distclean

run: $(VENV)/.run
	@exec $(BIN)/kwire server

test: $(VENV)/.test
	$(BIN)/ruff check kwire tests compat_tests spark_jobs benchmarks docker examples
	$(BIN)/ruff format --check kwire tests compat_tests spark_jobs benchmarks docker examples
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/mypy --config-file compat_tests/mypy.ini compat_tests spark_jobs benchmarks docker examples
	$(BIN)/pytest -n 2 --dist loadfile -m "not long"

# Long tests: simulated clusters and quorums with many seeds, planted bugs, kills, power cuts.
test-long: $(VENV)/.test
	$(BIN)/pytest -n 2 --dist loadfile -m long

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@ $(VENV)/.run

# The fuzzer of `make campaign PARSERS=180`; it has wheels for Linux only.
$(VENV)/.fuzz: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	@touch $@

# Build the documentation site in build/site; a broken link is an error.
docs: $(VENV)-docs/.docs
	NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --quiet --strict --clean

$(VENV)-docs/.docs: pyproject.toml
	test -x $(VENV)-docs/bin/python || $(PYTHON) -m venv $(VENV)-docs
	$(VENV)-docs/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

# Pin the dependencies of the image, with their hashes, to the newest versions that pyproject.toml allows.
lock:
	test -x $(VENV)-lock/bin/uv || { $(PYTHON) -m venv $(VENV)-lock && $(VENV)-lock/bin/pip install --quiet uv; }
	$(VENV)-lock/bin/uv pip compile --quiet --generate-hashes --universal --python-version 3.11 --no-annotate \
		--custom-compile-command "make lock" --output-file docker/requirements.txt pyproject.toml docker/requirements.in

# Build the wheels: pure Python for every machine, and for this machine with a compiled hot path (needs a C compiler).
wheel: $(VENV)/.test
	rm -rf build  # setuptools would copy old build results into the wheel, including deleted modules
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	KWIRE_COMPILE=1 $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .

# Build and unpack the compiled wheel; rebuild it when a source is newer.
COMPILED := .cache/compiled$(if $(SHORT),-quick)
$(COMPILED)/.built: $(VENV)/.test setup.py $(shell find kwire -name '*.py')
	rm -rf build $(COMPILED) && mkdir -p $(COMPILED)/wheel
	KWIRE_COMPILE=1 KWIRE_OPT_LEVEL=$(if $(SHORT),0,3) $(BIN)/python -m pip wheel --quiet --disable-pip-version-check \
		--no-deps --no-build-isolation \
		--wheel-dir $(COMPILED)/wheel .
	cd $(COMPILED) && $(CURDIR)/$(BIN)/python -m zipfile -e wheel/*.whl .
	@touch $@

# Run the tests of the compiled modules against the compiled wheel. SHORT=1 runs those of the folders with most of them.
TESTS_OF_COMPILED := tests/protocol tests/log tests/coordinator tests/server
test-compiled: $(COMPILED)/.built
	rm -rf $(COMPILED)/tests $(COMPILED)/compat_tests $(COMPILED)/docs
	cp -r tests compat_tests docs pyproject.toml $(COMPILED)/
	cd $(COMPILED) && $(CURDIR)/$(BIN)/python -m pytest -q -n 2 --dist loadfile $(TESTS_OF_COMPILED) \
		$(if $(SHORT),-m "not long",tests/cluster tests/hostile tests/test_crash.py)

# Test stock clients against kwire and Apache Kafka. ROW=kcat runs one client. ROW=clusters runs the rows with several
# nodes, which a run without ROW leaves out. SHORT=1 runs a short form on kwire only.
compat: $(VENV)-compat/.compat
	$(VENV)-compat/bin/python -m compat_tests.run $(if $(ROW),--row $(ROW)) $(if $(SHORT),--short)

$(VENV)-compat/.compat: pyproject.toml
	test -x $(VENV)-compat/bin/python || $(PYTHON) -m venv $(VENV)-compat
	$(VENV)-compat/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[compat]'
	@touch $@

# Test Spark's Kafka connector. ROW=batch (or a part of a test's name) runs one row; SHORT=1; BROKER=kwire|kafka|both.
# PYSPARK=3.5 or 4.2 runs the tests for each version of Spark with that one, in an environment of its own.
SPARK_VENV := $(VENV)-spark$(if $(PYSPARK),-$(PYSPARK))
spark: $(SPARK_VENV)/.spark
	$(SPARK_VENV)/bin/python -m spark_jobs.run $(if $(PYSPARK),--matrix) $(if $(ROW),--row $(ROW)) $(if $(SHORT),--short) \
		$(if $(BROKER),--broker $(BROKER))

$(SPARK_VENV)/.spark: pyproject.toml spark_jobs/versions.py
	test -x $(SPARK_VENV)/bin/python || $(PYTHON) -m venv $(SPARK_VENV)
	$(SPARK_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[spark,spark-tests]' \
		$$($(PYTHON) -m spark_jobs.versions requirements $(PYSPARK))
	@touch $@

# Show the Spark pipeline: a broker, a generator, the pipeline with a live view, and a report (REPORT=demo.html).
# SECONDS=60 is the time of the generator, RATE=2000 its events per second, FORMAT=delta|iceberg|parquet that of the tables.
demo: $(VENV)-spark/.spark
	$(VENV)-spark/bin/python -m spark_jobs.demo $(if $(SECONDS),--seconds $(SECONDS)) $(if $(RATE),--rate $(RATE)) \
		$(if $(FORMAT),--format $(FORMAT)) --report $(or $(REPORT),demo.html)

# Test the image with testcontainers and Compose. ROW=secured runs one suite. As root: installs Docker on Debian and
# starts its daemon if needed.
docker: $(VENV)-compat/.compat
	PYTHONPATH=docker:. $(VENV)-compat/bin/python -m proof.run $(if $(ROW),--row $(ROW))

# Compare kwire with Apache Kafka, both as shipped. ROW=start|perf-100|small|... runs one row; ROUNDS=1 is a short run.
# A run without ROW leaves out ROW=three-brokers (clusters) and ROW=growth (costs by size, up to LARGEST=1000).
# BROKER=kwire-pure measures the plain Python sources.
bench: $(VENV)-bench/.bench
	$(VENV)-bench/bin/python -m benchmarks.run $(if $(ROW),--row $(ROW)) $(if $(ROUNDS),--rounds $(ROUNDS)) \
		$(if $(BROKER),--broker $(BROKER)) $(if $(LARGEST),--largest $(LARGEST))

$(VENV)-bench/.bench: $(COMPILED)/.built
	test -x $(VENV)-bench/bin/python || $(PYTHON) -m venv $(VENV)-bench
	wheel=$$(ls $(CURDIR)/$(COMPILED)/wheel/*.whl) && $(VENV)-bench/bin/python -m pip install --quiet --disable-pip-version-check \
		--force-reinstall "$$wheel[bench]"
	@touch $@

# Search for faults for a long time; the results are data in docs/evidence. Without a name, all campaigns run one after
# the other; a name runs that campaign alone: KILLS=500, FRAMES=200000, SECURED_FRAMES=300000 (over TLS and SASL),
# STATES=200000, FLIPS=2000, POWER=300 (as root), CONTROLLERS=20 (as root), QUORUM=1000, CLUSTER=2000, HISTORIES=30,
# BROKERS=25 (as root; with SECURED=1, nodes use SASL over TLS, certificates are replaced and ACLs change), KAFKA_TESTS=1
# (Apache Kafka's own tests; MINUTES=25 runs a part, and the same command continues; FAMILY=cluster, streams, connect or
# scala), SOAK=3600 (seconds), COVERAGE=500 (code that no seed runs), FUZZ=3600 (seconds, fuzzers with a model),
# PARSERS=180 (seconds for each parser, with atheris), STORMS=10 (seconds of each storm of connections, handshakes and
# logins), HOSTILE=1 (cost of each request for the broker), SPARK=100 (rounds of Spark's streams under faults; with
# BROKER=kafka, on Apache Kafka). SEED=1 is the first seed.
CAMPAIGNS := KILLS FRAMES SECURED_FRAMES STATES FLIPS POWER CONTROLLERS QUORUM CLUSTER HISTORIES BROKERS KAFKA_TESTS SOAK COVERAGE FUZZ PARSERS STORMS HOSTILE SPARK
compat_python := $(VENV)-compat/bin/python
run-KILLS = $(BIN)/python -m tests.campaign.kills --kills $(or $(KILLS),500) --seed $(or $(SEED),1)
run-FRAMES = $(BIN)/python -m tests.campaign.frames --frames $(or $(FRAMES),200000) --seed $(or $(SEED),1)
run-SECURED_FRAMES = $(BIN)/python -m tests.campaign.secured_frames --frames $(or $(SECURED_FRAMES),300000) --seed $(or $(SEED),1)
run-STATES = $(BIN)/python -m tests.campaign.states --states $(or $(STATES),200000) --seed $(or $(SEED),1000)
run-FLIPS = $(BIN)/python -m tests.campaign.flips --flips $(or $(FLIPS),2000) --seed $(or $(SEED),1)
run-STORMS = $(BIN)/python -m tests.campaign.storms.run --seconds $(or $(STORMS),10)
run-POWER = $(BIN)/python -m tests.campaign.power --cuts $(or $(POWER),300) --seed $(or $(SEED),1)
run-CONTROLLERS = compat_tests/install.sh network && $(BIN)/python -m tests.campaign.controllers --runs $(or $(CONTROLLERS),20) --seed $(or $(SEED),1)
run-QUORUM = $(BIN)/python -m tests.campaign.quorum --seeds $(or $(QUORUM),1000) --seed $(or $(SEED),101)
run-CLUSTER = $(BIN)/python -m tests.campaign.cluster --seeds $(or $(CLUSTER),2000) --seed $(or $(SEED),101)
run-HISTORIES = $(compat_python) -m tests.campaign.histories --runs $(or $(HISTORIES),30) --seed $(or $(SEED),1)
run-BROKERS = compat_tests/install.sh kafka network && $(compat_python) -m tests.campaign.brokers --runs $(or $(BROKERS),25) --seed $(or $(SEED),1) $(if $(SECURED),--secured)
run-KAFKA_TESTS = $(compat_python) -m compat_tests.kafka_tests $(if $(FAMILY),--family $(FAMILY),--all) --evidence $(if $(MINUTES),--minutes $(MINUTES))
run-SOAK = $(compat_python) -m tests.campaign.soak --seconds $(or $(SOAK),3600) --seed $(or $(SEED),1)
run-COVERAGE = $(BIN)/python -m tests.campaign.coverage_of_seeds --seeds $(or $(COVERAGE),500)
run-FUZZ = $(BIN)/python -m tests.campaign.fuzz --seconds $(or $(FUZZ),3600) --seed $(or $(SEED),1001)
run-PARSERS = $(MAKE) $(VENV)/.fuzz && $(BIN)/python -m tests.campaign.parsers --seconds $(or $(PARSERS),180) --seed $(or $(SEED),1)
run-HOSTILE = $(compat_python) -m tests.campaign.hostile
run-SPARK = $(MAKE) $(VENV)-spark/.spark && $(VENV)-spark/bin/python -m spark_jobs.faults.run --rounds $(or $(SPARK),100) --seed $(or $(SEED),1) $(if $(BROKER),--broker $(BROKER))
chosen = $(foreach name,$(CAMPAIGNS),$(if $($(name)),$(name)))
campaign: $(VENV)/.test $(VENV)-compat/.compat
	$(foreach name,$(or $(strip $(chosen)),$(CAMPAIGNS)),$(run-$(name)) &&) true

# Plot the evidence of campaigns: docs/evidence/findings.svg.
plots: $(VENV)-docs/.docs
	$(VENV)-docs/bin/python -m benchmarks.findings

# Remove build results and caches of tools.
clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .import_linter_cache .hypothesis $(COMPILED)
	find kwire tests compat_tests spark_jobs benchmarks docker examples -name __pycache__ -prune -exec rm -rf {} +

# Also remove the environments and downloads; the next target installs and downloads again. Never removes `data`.
distclean: clean
	rm -rf $(VENV) $(VENV)-compat $(VENV)-spark* $(VENV)-bench $(VENV)-docs .cache
