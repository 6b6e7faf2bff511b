"""What the pages for operators ask beyond the rest of the API: troubles, trends, pairs and machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

from lingua_scheduler.admin.endpoint import PAGE, Endpoint, Handler, limit, query_word, word
from lingua_scheduler.admin.pairs import PairTable, pair_table
from lingua_scheduler.admin.pools import Pools
from lingua_scheduler.admin.power import PowerPage, power_page
from lingua_scheduler.admin.read_model import STALE_S, ReadModel
from lingua_scheduler.admin.trends import TrendKeeper, Trends
from lingua_scheduler.admin.troubles import Here, Troubles, Troubleshooter
from lingua_scheduler.core.model import InstanceId


class Boards:
    """Answers from the latest picture."""

    def __init__(
        self,
        model: ReadModel,
        trends: TrendKeeper,
        pools: Pools,
        here: tuple[InstanceId, Callable[[], list[str]]],
    ) -> None:
        self._model = model
        self._trend_keeper = trends
        self._troubleshooter = Troubleshooter(pools)
        self._instance_id, self._complaints = here

    def endpoints(self) -> list[Endpoint]:
        """Give what to serve."""

        def look(path: str, about: str, handler: Handler, answer: Any, **more: Any) -> Endpoint:
            path = f"/api/v1/{path}"
            return Endpoint(method="GET", path=path, about=about, handler=handler, answer=answer, **more)

        lang = (query_word("lang", "A language that must be among those shown."),)
        return [
            look("troubles", "What is wrong right now and where, the worst first.", self._troubles, Troubles),
            look("trends", "How the last quarter of an hour was.", self._trends, Trends),
            look(
                "pairs", "Slots and demand of every language pair.", self._pairs, PairTable, parameters=lang
            ),
            look(
                "compute-power",
                "How strong the nodes are, the largest GPUs first.",
                self._power,
                PowerPage,
                parameters=PAGE,
            ),
        ]

    async def _troubles(self, request: web.Request) -> web.Response:
        here = Here(
            instance_id=self._instance_id,
            complaints=tuple(self._complaints()),
            stale=self._model.age_s() > STALE_S,
            missing=tuple(sorted(self._trend_keeper.missing_reasons().items())),
        )
        return await self._model.answer(
            request, ("troubles", here), lambda picture: self._troubleshooter.troubles(picture, here)
        )

    async def _trends(self, request: web.Request) -> web.Response:
        return await self._model.answer(request, "trends", self._trend_keeper.trends)

    async def _pairs(self, request: web.Request) -> web.Response:
        lang = word(request, "lang").lower()
        return await self._model.answer(request, ("pairs", lang), lambda picture: pair_table(picture, lang))

    async def _power(self, request: web.Request) -> web.Response:
        page = limit(request), word(request, "cursor")
        return await self._model.answer(request, ("power", *page), lambda picture: power_page(picture, *page))
