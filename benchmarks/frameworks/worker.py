"""One framework's process: it reads commands from its input and answers with a line of JSON each.

    python benchmarks/frameworks/worker.py --framework=torch --network=gnmt_multi30k_64 --cores=1

`check STEPS` gives the mean loss of the first steps; `time SECONDS` the wall and CPU seconds of a step, over about as
many seconds.
"""

import argparse
import json
import os
import sys
import time

FRAMEWORKS = ("tfbigbatch", "tfbigbatch_xla", "torch", "torch_compile", "jax")


def _step(framework, network, cores):
    if framework.startswith("tfbigbatch"):
        os.environ["TF_NUM_INTRAOP_THREADS"] = str(cores)
        import with_tfbigbatch

        return with_tfbigbatch.Step(network, framework.endswith("_xla")), with_tfbigbatch.VERSION
    if framework.startswith("torch"):
        import with_torch

        return with_torch.Step(network, cores, framework.endswith("_compile")), with_torch.VERSION
    # Of JAX there is nothing to set: XLA takes the CPUs that the process may run on.
    import with_jax

    return with_jax.Step(network), with_jax.VERSION


def _timed(step, steps):
    wall, processor = time.perf_counter(), time.process_time()
    step.run(steps)
    return time.perf_counter() - wall, time.process_time() - processor


def serve(framework, network, cores, commands, answer):
    """Answers commands until they end.

    Args:
      framework: one of FRAMEWORKS.
      network: a `networks.Network`.
      cores: number of CPUs that the process may run on.
      commands: iterable of lines.
      answer: function of a dictionary.
    """
    # Before the framework is imported, which makes as many threads as it may use.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    step, version = _step(framework, network, cores)
    answer({"parameters": step.parameters, "version": version})
    seconds_of_step = None
    for line in commands:
        command, argument = line.split()
        if command == "check":
            answer({"loss": step.run(int(argument))})
            continue
        inner = network.inner_steps
        if seconds_of_step is None:
            seconds_of_step = _timed(step, inner)[0] / inner
        steps = max(1, round(float(argument) / seconds_of_step / inner)) * inner
        wall, processor = _timed(step, steps)
        seconds_of_step = wall / steps
        answer({"steps": steps, "wall": wall / steps, "cpu": processor / steps})


def _main():
    from networks import NETWORKS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", required=True, choices=FRAMEWORKS)
    parser.add_argument("--network", required=True, choices=NETWORKS)
    parser.add_argument("--cores", type=int, default=1)
    given = parser.parse_args()
    # Frameworks print to the standard output too.
    out, sys.stdout = sys.stdout, sys.stderr
    serve(
        given.framework,
        NETWORKS[given.network],
        given.cores,
        sys.stdin,
        lambda found: print(json.dumps(found), file=out, flush=True),
    )


if __name__ == "__main__":
    _main()
