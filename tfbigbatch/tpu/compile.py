"""Compiles StableHLO for a TPU slice: python -m tfbigbatch.tpu.compile, in the environment `compile`.

libtpu compiles for a slice that it knows by name only, through JAX's topology client. Reads step.mlir in the folder
that the request names. Needs no TensorFlow; `check` sets the variables of its environment.
"""

from __future__ import annotations

import os
import time
from importlib import metadata
from typing import Any

import jax
import numpy as np
from jax._src.interpreters import mlir
from jax._src.lib import _jax, xla_client
from jax._src.lib.mlir import ir
from jax.experimental import topologies
from jaxlib import _hlo
from jaxlib.mlir.dialects import stablehlo

from tfbigbatch.tpu import check, hlo, loops

_LONGEST_ERROR = 20_000


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Compiles the step of a request.

    Args:
      request: topology (libtpu's name), options (its further arguments), replicas, variables (number of last arguments
        that become the last results) and folder.

    Returns:
      Dictionary: seconds, device, memory (bytes by kind), flops and bytes (both with every iteration of the loops),
      collectives, float64_results, loops (their number), uncounted_loops (the number counted with one iteration,
      since theirs are unknown), libtpu; or error and allocations, those that an out-of-memory error lists.
    """
    described = topologies.get_topology_desc(platform="tpu", topology_name=request["topology"], **request["options"])
    devices = list(described.devices)
    versions = {"jax": jax.__version__, "libtpu": metadata.version("libtpu")}
    found = {"devices": len(devices), "device": devices[0].device_kind, **versions}
    started = time.perf_counter()
    try:
        executable = _compiled(request, devices[: request["replicas"]])
    except Exception as error:  # The client raises compiler errors of several types.
        found["seconds"] = round(time.perf_counter() - started, 1)
        return {**found, "error": str(error)[:_LONGEST_ERROR], "allocations": hlo.allocations(str(error))}
    found["seconds"] = round(time.perf_counter() - started, 1)
    memory = executable.get_compiled_memory_stats()
    costs = executable.cost_analysis()
    costs = costs[0] if isinstance(costs, list) else costs
    text = "\n".join(module.to_string() for module in executable.hlo_modules())
    # The compiler counts one iteration of each loop.
    whole, iterations = loops.whole_cost(
        text, {"flops": costs.get("flops"), "bytes": costs.get("bytes accessed")}, _cost
    )
    names = [name for name in dir(memory) if name.endswith("_in_bytes") and not name.startswith("host")]
    return {
        **found,
        "memory": {name.removesuffix("_in_bytes"): getattr(memory, name) for name in names},
        **whole,
        "collectives": hlo.collectives(text),
        "float64_results": hlo.float64_count(text),
        "loops": len(iterations),
        "uncounted_loops": sum(each is None for each in iterations.values()),
    }


def _cost(text: str) -> dict[str, float]:
    """Flops and bytes of a program's text by XLA's cost analysis for a CPU, since libtpu's takes whole programs only.

    The operations are the same; the bytes lack a TPU's padding.
    """
    costs = _jax.hlo_module_cost_analysis(jax.devices("cpu")[0].client, _hlo.hlo_module_from_text(text))
    # A branch that does nothing has no entry for it.
    return {"flops": costs.get("flops", 0.0), "bytes": costs.get("bytes accessed", 0.0)}


def _compiled(request: dict[str, Any], devices: list[Any]) -> Any:
    with open(os.path.join(request["folder"], "step.mlir"), "rb") as file:
        module = _parsed(mlir.make_ir_context(), file.read())
    _donate(module, request["variables"])
    replicas = len(devices)
    assignment = xla_client.DeviceAssignment.create(np.array([each.id for each in devices]).reshape(replicas, 1))
    options = xla_client.CompileOptions()
    for each in (options, options.executable_build_options):
        each.num_replicas, each.num_partitions, each.device_assignment = replicas, 1, assignment
    return devices[0].client.compile(
        module, executable_devices=_jax.DeviceList(tuple(devices)), compile_options=options
    )


def _parsed(context: Any, program: bytes) -> Any:
    with context:
        try:
            return ir.Module.parse(program)
        except Exception:  # ir.MLIRError is not public; it is the only sign of another StableHLO version.
            return stablehlo.deserialize_portable_artifact(context, program)


def _donate(module: Any, variables: int) -> None:
    """Donates the last `variables` arguments to the last results, as a training loop does."""
    with module.context:
        main = next(each for each in module.body.operations if each.attributes["sym_name"].value == "main")
        kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        inputs, results = len(kind.inputs), len(kind.results)
        if "arg_attrs" in main.attributes:
            before = [{each.name: each.attr for each in entry} for entry in ir.ArrayAttr(main.attributes["arg_attrs"])]
        else:
            before = [{} for _ in range(inputs)]
        number = ir.IntegerType.get_signless(32)
        for back in range(1, variables + 1):
            before[inputs - back]["tf.aliasing_output"] = ir.IntegerAttr.get(number, results - back)
        main.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(entry) for entry in before])


if __name__ == "__main__":
    check.answer(run)
