"""Compiles StableHLO for a TPU slice: python -m tfbigbatch.tpu.compile REQUEST.json, in the environment `compile`.

libtpu compiles for a slice that it knows by name only, through JAX's topology client. Reads step.mlir in the folder
that the request names and writes compiled.json there. Needs no TensorFlow.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import traceback
from typing import Any

# Without these libtpu asks a metadata server for the machine and looks for its TPU; it compiles for any slice anyway.
os.environ.update(TPU_SKIP_MDS_QUERY="1", TPU_ACCELERATOR_TYPE="v5litepod-4", TPU_WORKER_HOSTNAMES="localhost")
os.environ.update(ALLOW_MULTIPLE_LIBTPU_LOAD="1", JAX_PLATFORMS="cpu")

from tfbigbatch.tpu import hlo, loops, topologies

FACTS, PROGRAM = "compiled.json", "program.txt"
# The chip with the most memory.
_ROOMIEST = "v5p"
_LONGEST_ERROR = 20_000


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Compiles the step of a request.

    Args:
      request: topology (libtpu's name), options (its further arguments), replicas, variables (number of last arguments
        that become the last results), folder, keep_program (whether to write program.txt), and xla_flags.

    Returns:
      Dictionary: seconds, device, memory (bytes by kind), flops and bytes (both with every iteration of the loops),
      collectives, float64_results, loops (their number), uncounted_loops (the number counted with one iteration,
      since theirs are unknown), libtpu; or error, and after an out-of-memory error, allocations.
    """
    if request["xla_flags"]:
        # libtpu reads them when it is loaded, and ends the process at one that it does not know.
        os.environ["LIBTPU_INIT_ARGS"] = " ".join([os.environ.get("LIBTPU_INIT_ARGS", ""), *request["xla_flags"]])
    import jax

    devices = _devices(request["topology"], request["options"])
    found = {"devices": len(devices), "device": devices[0].device_kind, "jax": jax.__version__, "libtpu": _libtpu()}
    if request["replicas"] > len(devices):
        raise ValueError(f"{request['topology']} has {len(devices)} devices; {request['replicas']} replicas asked for")
    started = time.perf_counter()
    try:
        executable = _compiled(request, devices[: request["replicas"]])
    except Exception as error:  # The client raises compiler errors of several types.
        found["seconds"] = round(time.perf_counter() - started, 1)
        return {**found, **_failed(str(error), request)}
    found["seconds"] = round(time.perf_counter() - started, 1)
    memory = executable.get_compiled_memory_stats()
    costs = executable.cost_analysis()
    costs = costs[0] if isinstance(costs, list) else costs
    text = "\n".join(module.to_string() for module in executable.hlo_modules())
    program = loops.Program(text)
    # The compiler counts one iteration of each loop.
    whole = program.cost({"flops": costs.get("flops"), "bytes": costs.get("bytes accessed")}, _cost)
    if request["keep_program"]:
        with open(os.path.join(request["folder"], PROGRAM), "w", encoding="utf-8") as file:
            file.write(text)
    names = [name for name in dir(memory) if name.endswith("_in_bytes") and not name.startswith("host")]
    return {
        **found,
        "memory": {name.removesuffix("_in_bytes"): getattr(memory, name) for name in names},
        **whole,
        "collectives": [each._asdict() for each in hlo.collectives(text)],
        "float64_results": hlo.float64_count(text),
        "loops": len(program.loops),
        "uncounted_loops": sum(each.iterations is None for each in program.loops),
    }


def _cost(text: str) -> dict[str, float]:
    """Flops and bytes of a program's text by XLA's cost analysis for a CPU, since libtpu's takes whole programs only.

    The operations are the same; the bytes lack a TPU's padding.
    """
    import jax
    from jax._src.lib import _jax
    from jaxlib import _hlo

    costs = _jax.hlo_module_cost_analysis(jax.devices("cpu")[0].client, _hlo.hlo_module_from_text(text))
    # A branch that does nothing has no entry for it.
    return {"flops": costs.get("flops", 0.0), "bytes": costs.get("bytes accessed", 0.0)}


def _devices(name: str, options: dict[str, Any]) -> list[Any]:
    from jax.experimental import topologies as jax_topologies

    return list(jax_topologies.get_topology_desc(platform="tpu", topology_name=name, **options).devices)


def _failed(error: str, request: dict[str, Any]) -> dict[str, Any]:
    """The result for a program that the compiler refused."""
    found: dict[str, Any] = {"error": error[:_LONGEST_ERROR]}
    if hlo.out_of_memory(error) is not None:
        allocations = hlo.allocations(error) or _largest_where_it_fits(request)
        found["allocations"] = [each._asdict() for each in allocations]
    return found


def _largest_where_it_fits(request: dict[str, Any]) -> list[hlo.Allocation]:
    """The largest tensors of the step on a chip with more memory: far above its own, the compiler lists none."""
    roomy = topologies.of_chips(_ROOMIEST, max(8, 1 << (request["replicas"] - 1).bit_length()))
    if roomy is None:
        return []
    try:
        executable = _compiled(request, _devices(roomy.name, roomy.libtpu_options)[: request["replicas"]])
    except Exception:  # It does not fit there either.
        return []
    return hlo.largest_results("\n".join(module.to_string() for module in executable.hlo_modules()))


def _compiled(request: dict[str, Any], devices: list[Any]) -> Any:
    import numpy as np
    from jax._src.interpreters import mlir
    from jax._src.lib import _jax, xla_client

    with open(os.path.join(request["folder"], "step.mlir"), "rb") as file:
        module = _parsed(mlir.make_ir_context(), file.read())
    _donate(module, request["variables"])
    replicas = len(devices)
    assignment = xla_client.DeviceAssignment.create(np.array([each.id for each in devices]).reshape(replicas, 1))
    options = xla_client.CompileOptions()
    for each in (options, options.executable_build_options):
        each.num_replicas, each.num_partitions, each.device_assignment = replicas, 1, assignment
    arguments = {"executable_devices": _jax.DeviceList(tuple(devices)), "compile_options": options}
    try:
        return devices[0].client.compile(module, **arguments)
    except TypeError:
        # Older clients take the module's bytes.
        return devices[0].client.compile(mlir.module_to_bytecode(module), **arguments)


def _parsed(context: Any, program: bytes) -> Any:
    from jax._src.lib.mlir import ir

    with context:
        try:
            return ir.Module.parse(program)
        except Exception:  # ir.MLIRError is not public; it is the only sign of another StableHLO version.
            from jax._src.lib.mlir.dialects import stablehlo

            return stablehlo.deserialize_portable_artifact(context, program)


def _donate(module: Any, variables: int) -> None:
    """Donates the last `variables` arguments to the last results, as a training loop does."""
    from jax._src.lib.mlir import ir

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


def _libtpu() -> str | None:
    from importlib import metadata

    try:
        return metadata.version("libtpu")
    except metadata.PackageNotFoundError:
        return None


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        request = json.load(file)
    try:
        found = run(request)
    except Exception:
        found = {"crash": traceback.format_exc()}
    found["compile_gib"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)
    with open(os.path.join(request["folder"], FACTS), "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
