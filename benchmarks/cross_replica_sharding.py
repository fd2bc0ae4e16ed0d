"""What libtpu's sharding of updates (weight-update sharding, arXiv:2004.13336) does to small programs.

    PYTHONPATH=. .tpu_envs/compile/bin/python benchmarks/cross_replica_sharding.py

Adam's update of four matrices of 2,048 x 2,048 by 16 replicas of v3, compiled with the flag
`xla_jf_auto_cross_replica_sharding` left alone, on and off: one step or a loop of ten on the device; with moments that
come in and go out, or that begin at zero in the program and stay there. The environment is that of `tfbigbatch
tpu-check`. Nothing is run.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

from tfbigbatch.tpu import compile as tpu_compile
from tfbigbatch.tpu import hlo, topologies

FLAG = "--xla_jf_auto_cross_replica_sharding"
REPLICAS, MATRICES, SIDE, EXAMPLES = 16, 4, 2048, 64
PROGRAMS = {
    "one step, moments come in and go out": (1, True),
    "one step, moments stay in the program": (1, False),
    "ten steps, moments come in and go out": (10, True),
    "ten steps, moments stay in the program": (10, False),
}
_ALL_REDUCE = """{result} = "stablehlo.all_reduce"({argument}) <{{replica_groups = dense<[{replicas}]> : \
tensor<1x{count}xi64>}}> ({{ ^bb0(%lhs: tensor<f32>, %rhs: tensor<f32>): %sum = stablehlo.add %lhs, %rhs : tensor<f32> \
stablehlo.return %sum : tensor<f32> }}) : ({type}) -> {type}"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", choices=PROGRAMS, help="set by the benchmark itself: the one to compile")
    options = parser.parse_args()
    if options.program:
        print(row(options.program), flush=True)
        return
    print("| program | flag | memory of a replica | of them temporary | all-reduces | parts scattered |")
    print("|---|---|---:|---:|---|---:|", flush=True)
    for program in PROGRAMS:
        for value in ("", "true", "false"):
            # libtpu reads its flags once in a process.
            environment = {**os.environ, "LIBTPU_INIT_ARGS": f"{FLAG}={value}" if value else ""}
            command = [sys.executable, __file__, "--program", program]
            found = subprocess.run(command, env=environment, capture_output=True, text=True)
            if found.returncode:
                raise SystemExit(found.stderr[-3000:])
            print(f"| {program} | {value or 'left alone'} | {found.stdout.strip()} |", flush=True)


def row(program):
    """Memory and collectives of a compiled program, as cells."""
    topology = topologies.parse(f"v3-{REPLICAS}")
    devices = tpu_compile._devices(topology.name, topology.libtpu_options)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "step.mlir"), "w", encoding="utf-8") as file:
            file.write(lowered(*PROGRAMS[program]))
        executable = tpu_compile._compiled({"folder": folder, "variables": 0}, devices[:REPLICAS])
    memory = executable.get_compiled_memory_stats()
    text = "\n".join(module.to_string() for module in executable.hlo_modules())
    collectives = ", ".join(f"{each.count} of {each.bytes / 2**20:.0f} MB" for each in hlo.collectives(text))
    scattered = len(re.findall(r"^%all-reduce-scatter", text, re.MULTILINE))
    sizes = (memory.peak_memory_in_bytes, memory.temp_size_in_bytes)
    return " | ".join([*(f"{size / 2**20:.0f} MB" for size in sizes), collectives, str(scattered)])


def lowered(steps, has_moments):
    """StableHLO of a replica's steps."""
    import jax
    import jax.numpy as jnp

    def step(_, carried):
        weights, means, squares, images = carried
        gradients = jax.grad(lambda weights: loss(weights, images))(weights)
        # A marker, which becomes the sum over the replicas.
        gradients = [jax.lax.optimization_barrier(each) / REPLICAS for each in gradients]
        means = [0.9 * mean + 0.1 * each for mean, each in zip(means, gradients)]
        squares = [0.99 * square + 0.01 * each * each for square, each in zip(squares, gradients)]
        changes = [mean / (jnp.sqrt(square) + 1e-8) for mean, square in zip(means, squares)]
        return [weight - 1e-3 * change for weight, change in zip(weights, changes)], means, squares, images

    def loss(weights, outputs):
        for weight in weights:
            outputs = jnp.tanh(outputs @ weight)
        return jnp.mean(outputs * outputs)

    def program(images, weights, *moments):
        zeros = [jnp.zeros_like(each) for each in weights]
        carried = (weights, *(moments or (zeros, zeros)), images)
        carried = step(0, carried) if steps == 1 else jax.lax.fori_loop(0, steps, step, carried)
        return carried[:3] if has_moments else carried[0]

    matrices = [jax.ShapeDtypeStruct((SIDE, SIDE), jnp.float32)] * MATRICES
    arguments = [jax.ShapeDtypeStruct((EXAMPLES, SIDE), jnp.float32)] + [matrices] * (3 if has_moments else 1)
    text = str(jax.jit(program).lower(*arguments).compiler_ir("stablehlo"))
    barrier = re.compile(
        r"(?P<result>%\S+) = stablehlo.optimization_barrier (?P<argument>%\S+) : (?P<type>tensor<\S+>)"
    )
    replicas = list(range(REPLICAS))
    return barrier.sub(lambda m: _ALL_REDUCE.format(**m.groupdict(), replicas=replicas, count=REPLICAS), text)


if __name__ == "__main__":
    main()
