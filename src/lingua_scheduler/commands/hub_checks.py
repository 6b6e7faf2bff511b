"""What `lingua doctor` says about the model hub and the local index."""

from __future__ import annotations

from lingua_scheduler.commands.redis_checks import BAD, NOTE, OK, Check
from lingua_scheduler.core.catalogue import Catalogue, ModelHubOptions, NoCatalogue
from lingua_scheduler.hub.hub import Hub
from lingua_scheduler.hub.subscription import read_local


async def hub_findings(options: ModelHubOptions) -> list[Check]:
    """Ask the hub and read the local index as an instance would, as far as there are any."""
    local = _local(options) if options.storage_path else None
    if not options.base_url:
        return [local or Check("model hub", OK, "no address is set: services are those that nodes have")]
    hub = await _hub(options, with_local=local is not None and local.grade != BAD)
    return [hub, local] if local else [hub]


async def _hub(options: ModelHubOptions, *, with_local: bool) -> Check:
    try:
        catalogue = await Hub(options).catalogue()
    except NoCatalogue as failure:
        grade = NOTE if with_local else BAD
        instead = (
            ": the local index counts instead" if with_local else ": people see what nodes have, and no more"
        )
        return Check("model hub", grade, f"{failure}{instead}", failure.advice)
    return _counted("model hub", catalogue)


def _local(options: ModelHubOptions) -> Check:
    try:
        return _counted("local index", read_local(options))
    except NoCatalogue as failure:
        return Check("local index", BAD, str(failure), failure.advice)


def _counted(about: str, catalogue: Catalogue) -> Check:
    found = f"{len(catalogue.services)} services"
    if catalogue.skipped:
        advice = "every service needs a service_id, and every variant an artifact"
        return Check(about, NOTE, f"{found}; {catalogue.skipped} entries are of no use", advice)
    return Check(about, OK, found)
