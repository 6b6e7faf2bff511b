"""Keeps the catalogue of services: asks the hub when that is due, and the local index when the hub fails.

It decides nothing for anybody who waits: what is known is an attribute, and whoever looks never asks the hub.
"""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

from lingua_scheduler.aio import Tasks
from lingua_scheduler.clock import Clock
from lingua_scheduler.core.catalogue import (
    INDEX_FILE,
    Catalogue,
    ModelHubOptions,
    NoCatalogue,
    Standing,
    read_index,
)
from lingua_scheduler.hub.hub import Hub, Lookup
from lingua_scheduler.log import get_logger
from lingua_scheduler.metrics import Metrics

_log = get_logger(__name__)


def read_local(options: ModelHubOptions) -> Catalogue:
    """Read the local index; NoCatalogue when there is none that can be read."""
    file = Path(options.storage_path) / INDEX_FILE
    advice = f"put {INDEX_FILE} into the folder of model_hub.storage_path, readable for the scheduler"
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise NoCatalogue("the local index is not a file", advice)
        with file.open("rb") as source:
            body = source.read(options.max_answer_bytes + 1)
    except (OSError, ValueError) as error:
        raise NoCatalogue(f"the local index cannot be read: {type(error).__name__}", advice) from None
    if len(body) > options.max_answer_bytes:
        raise NoCatalogue(f"the local index is larger than {options.max_answer_bytes} bytes", advice)
    return read_index(body, options)


class Subscription:
    """What is known of the services, and the questions that keep it so."""

    def __init__(
        self, options: ModelHubOptions, clock: Clock, metrics: Metrics, *, lookup: Lookup | None = None
    ) -> None:
        self._options = options
        self._clock = clock
        self._hub = Hub(options, lookup) if options.base_url else None
        self._tasks = Tasks()
        self._due_at = float("-inf")
        self.standing = Standing()
        metrics.service_catalog_fail_count.set_function(lambda: self.standing.fail_count)
        metrics.service_catalog_last_success_age_seconds.set_function(self._age_s)

    @property
    def wanted(self) -> bool:
        """There is something to ask."""
        return self._hub is not None or bool(self._options.storage_path)

    async def turn(self) -> None:
        """Begin to ask, in the background, if that is due; one question at a time."""
        if self.wanted and not len(self._tasks) and self._clock.now() >= self._due_at:
            self._tasks.start(self.ask(), name="catalogue")

    async def ask(self) -> None:
        """Ask once, and know more, or know of the failure."""
        before = self.standing
        try:
            self.standing = await self._asked()
        finally:  # also after a fault of ours: it must not be asked without a pause
            self._due_at = self._clock.now() + self.standing.pause_s(self._options)
        self._tell(before, self.standing)

    async def stop(self) -> None:
        """Ask no more."""
        await self._tasks.stop()

    async def _asked(self) -> Standing:
        if self._hub is None:
            try:
                local = await self._local()
            except NoCatalogue as failure:
                return self.standing.failed(f"local_index_failed: {failure}", None, self._clock.wall_ms())
            return self.standing.answered(local, "local", self._clock.wall_ms())
        try:
            offered = await self._hub.catalogue()
        except NoCatalogue as failure:
            why = f"hub_failed: {failure}"
        else:
            return self.standing.answered(offered, "hub", self._clock.wall_ms())
        return self.standing.failed(why, await self._fallback(), self._clock.wall_ms())

    async def _fallback(self) -> Catalogue | None:
        if not self._options.storage_path:
            return None
        try:
            return await self._local()
        except NoCatalogue as failure:
            _log.debug("local_index_not_read", reason=str(failure))
            return None

    async def _local(self) -> Catalogue:
        return await asyncio.to_thread(read_local, self._options)

    def _age_s(self) -> float:
        at_ms = self.standing.last_success_at_ms
        return max(0.0, (self._clock.wall_ms() - at_ms) / 1000) if at_ms else 0.0

    def _tell(self, before: Standing, after: Standing) -> None:
        """Log what is news: the first failure in a row, the recovery, entries that are of no use."""
        if after.fail_count == 1:
            _log.warning("catalogue_not_fetched", reason=after.last_error)
        elif not after.fail_count and (before.fail_count or not before.last_success_at_ms):
            _log.info("catalogue_fetched", source=after.source, services=len(after.catalogue.services))
        if after.catalogue.skipped and after.catalogue.skipped != before.catalogue.skipped:
            _log.warning("catalogue_entries_skipped", source=after.source, skipped=after.catalogue.skipped)
