"""Compiles an image step for TPUs with its images split over the logical devices of a replica (spatial partitioning).

    python tools/tpu_check.py --config=experiments/imagenet/resnet50_lars.py:4k --config.model.image_size=1024 \\
      --config.batch_size=128 --topology=v3-8 --replicas=4 --keep=runs/spatial
    PYTHONPATH=. .tpu_envs/compile/bin/python benchmarks/spatial_partitioning.py --program=runs/spatial/step.mlir \\
      --topology=v3-8 --replicas=4 --logical_devices=2 --variables=438

The first command writes the step that the second compiles. What
`strategy.experimental_split_to_logical_devices(images, [1, 2, 1, 1])` asks of XLA on a TPU is asked here of libtpu: the
rows of the images on two devices, all variables on both, and the SPMD partitioner for what is between. Nothing is run.
"""

import argparse
import time

from tfbigbatch.tpu import compile as tpu_compile
from tfbigbatch.tpu import hlo, topologies


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="step.mlir of tpu-check --keep; images are its first argument")
    parser.add_argument("--topology", required=True, help="slice, as of tpu-check")
    parser.add_argument("--replicas", type=int, required=True, help="those that the step was traced for")
    parser.add_argument("--logical_devices", type=int, default=2, help="of a replica")
    parser.add_argument("--variables", type=int, required=True, help="the step's, as tpu-check --json gives them")
    options = parser.parse_args()
    topology = topologies.parse(options.topology)
    devices = tpu_compile._devices(topology.name, topology.libtpu_options)
    needed = options.replicas * options.logical_devices
    if needed > len(devices):
        parser.error(f"{topology.name} has {len(devices)} devices; {needed} are needed")
    began = time.perf_counter()
    try:
        executable = compiled(options, devices[:needed])
    except Exception as error:  # The client raises compiler errors of several types.
        raise SystemExit(f"refused after {time.perf_counter() - began:.0f} s: {str(error)[:2000]}") from None
    memory = executable.get_compiled_memory_stats()
    costs = executable.cost_analysis()
    costs = costs[0] if isinstance(costs, list) else costs
    text = "\n".join(module.to_string() for module in executable.hlo_modules())
    print(f"compiled     in {time.perf_counter() - began:.0f} s, {options.logical_devices} devices a replica")
    print(f"memory       {memory.peak_memory_in_bytes / 2**30:.2f} GB of a device")
    print(f"step         {costs['flops'] / 1e9:,.0f} GFLOP and {costs['bytes accessed'] / 2**30:.2f} GB of a device")
    for each in hlo.collectives(text):
        print(f"collective   {each.count} {each.kind} of {each.bytes / 2**20:.1f} MB")


def compiled(options, devices):
    """The executable for `devices`, in groups of a replica's logical devices."""
    import numpy as np
    from jax._src.interpreters import mlir
    from jax._src.lib import _jax, xla_client

    with open(options.program, "rb") as file:
        module = tpu_compile._parsed(mlir.make_ir_context(), file.read())
    tpu_compile._donate(module, options.variables)
    split(module, options.replicas, options.logical_devices)
    groups = np.array([each.id for each in devices]).reshape(options.replicas, options.logical_devices)
    settings = xla_client.CompileOptions()
    for each in (settings, settings.executable_build_options):
        each.num_replicas, each.num_partitions = groups.shape
        each.device_assignment = xla_client.DeviceAssignment.create(groups)
    settings.executable_build_options.use_spmd_partitioning = options.logical_devices > 1
    return devices[0].client.compile(
        module, executable_devices=_jax.DeviceList(tuple(devices)), compile_options=settings
    )


def split(module, replicas, logical_devices):
    """Annotates the first argument as split along its second dimension, and all else as replicated."""
    from jax._src.lib.mlir import ir

    with module.context:
        main = next(each for each in module.body.operations if each.attributes["sym_name"].value == "main")
        kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        rows = f"{{devices=[1,{logical_devices},1,1]{','.join(map(str, range(logical_devices)))}}}"
        everywhere = {"mhlo.sharding": ir.StringAttr.get("{replicated}")}
        donated = ir.ArrayAttr(main.attributes["arg_attrs"])
        arguments = [{**{each.name: each.attr for each in entry}, **everywhere} for entry in donated]
        if logical_devices > 1:
            arguments[0]["mhlo.sharding"] = ir.StringAttr.get(rows)
        main.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in arguments])
        main.attributes["res_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(everywhere) for _ in kind.results])
        number = ir.IntegerType.get_signless(32)
        module.operation.attributes["mhlo.num_replicas"] = ir.IntegerAttr.get(number, replicas)
        module.operation.attributes["mhlo.num_partitions"] = ir.IntegerAttr.get(number, logical_devices)


if __name__ == "__main__":
    main()
