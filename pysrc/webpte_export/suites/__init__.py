"""Tools for developers: suites of programs, variants to run them in, and benchmarks.

    suite.py         the format of a suite, and how its programs are run and compared
    variants.py      other ways to run the same program: unfused, f32 only, plain kernels
    kernel_bench.py  times of single kernels, natively

`serve.py verify` and `bench` run them, on the host or in the harness page. Neither the page nor the
wheel contains them.
"""
