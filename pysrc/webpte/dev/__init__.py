"""Modules for developers: suites of programs, benchmarks, the table of kernel variants."""
