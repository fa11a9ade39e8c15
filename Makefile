# Every target sets up what it needs first, and skips what is there. Needs Python 3.11 or later.
ARGS ?=
PORT ?= 8040
N ?= 200
SEED ?=
TABLES ?=
# Tests and demo start hundreds of Python processes: each would compile all its imports anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo serve test chaos check bench lock clean

help:
	@echo "make demo     set up, then run SQL on the flights data through the whole chain"
	@echo "make serve    set up, then start a node on port $(PORT)"
	@echo "make test     set up, PostgreSQL, YARN and lakes included, then all tests; ARGS='-k name' goes to pytest"
	@echo "make chaos    N=200 random histories with a fault in each; SEED=… plays a run or a history again"
	@echo "make check    the gate: format, lint, types, imports, tests that need no service"
	@echo "make bench    measure against Spark alone, Spark Connect and the Spark Thrift Server"
	@echo "make lock     write requirements/*.lock anew; UPGRADE=1 takes newer versions"
	@echo "make clean    remove what set-up and tools made; tables and state in .headrace stay"

demo:
	@scripts/setup demo
	@.venv/bin/python examples/demo.py

serve:
	@scripts/setup demo
	@.venv/bin/headrace serve --port $(PORT) $(ARGS)

test:
	@scripts/setup test
	@scripts/setup-postgres
	@scripts/setup-jars yarn catalogs
	@.venv/bin/python -m tests.support.short_lived_java
	.venv/bin/pytest -n 2 --no-loadscope-reorder $(ARGS)

chaos:
	@scripts/setup test
	@scripts/setup-postgres
	@scripts/setup-jars catalogs
	@.venv/bin/python -m tests.support.short_lived_java
	.venv/bin/python -m tests.faults $(N) $(SEED)
	$(if $(SEED),,.venv/bin/python -m tests.faults.tables $(TABLES))
	$(if $(SEED),,.venv/bin/pytest -n 2 --no-loadscope-reorder -m matrix)

check:
	@scripts/setup test
	.venv/bin/ruff format --check
	.venv/bin/ruff check
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/pytest -q -m "not spark and not postgres and not yarn and not catalogs" $(ARGS)

bench:
	@scripts/setup bench
	@scripts/setup-postgres
	.venv/bin/python -m benchmarks $(ARGS)

lock:
	@scripts/lock

clean:
	rm -rf .venv .tools build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} +
