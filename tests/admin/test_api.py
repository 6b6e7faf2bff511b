"""What people and programs may ask: always quick, never a question to Redis, never what was said."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack

import aiohttp
import pytest

from asking import ask, look
from lingua_scheduler.app import running
from lingua_scheduler.secret import Secret
from support import wait_until
from world import FakeNode, Speaker, configured, world

SHAPE = {
    "web_clients": {"active_users", "top_languages", "language_usage"},
    "nodes": {
        "connected_nodes",
        "type_node_counts",
        "available_services",
        "total_services",
        "type_in_use_counts",
        "service_node_counts",
        "compute_power",
    },
}
READS = ("stats", "metrics", "cluster", "nodes", "sessions", "autoscale", "dead-letters", "phase3/pools")


async def test_ac_78_the_first_stats_are_complete_and_empty_before_anything_was_looked_at(store_options):
    async with world(store_options, admin={"refresh_ms": 10_000}) as house:
        status, said, headers = await ask(house.instance, "GET", "/api/v1/stats")
        assert (status, headers["Lingua-Version"]) == (200, "0")
        assert {part: set(members) for part, members in said.items()} == SHAPE
        assert said["web_clients"] == {"active_users": 0, "top_languages": [], "language_usage": {}}
        assert said["nodes"]["compute_power"] == {
            "total_cpu_power": 0,
            "total_gpu_power": 0,
            "total_memory_power": 0,
            "node_power_details": [],
        }


async def test_ac_78_real_numbers_follow_by_themselves(store_options):
    async with world(store_options, admin={"refresh_ms": 100}) as house:
        await house.node()

        async def counted() -> bool:
            _, said, _ = await ask(house.instance, "GET", "/api/v1/stats")
            return said["nodes"]["connected_nodes"] == 1 and said["nodes"]["total_services"] == 4

        await wait_until(counted, description="the node is counted")


async def test_ac_78_a_thousand_calls_at_once_ask_redis_nothing(store_options, redis_server):
    async with world(store_options) as house:
        await house.node()
        await house.session()
        await house.instance.desk.refresh()
        await house.instance.watch.stop()  # nothing but requests may talk to Redis now

        def commands() -> int:
            with redis_server.client() as client:
                return client.info("stats")["total_commands_processed"]

        unlimited = aiohttp.TCPConnector(limit=100)
        async with aiohttp.ClientSession(connector=unlimited) as http:

            async def get(path: str) -> int:
                async with http.get(f"{house.instance.url}/api/v1/{path}") as answer:
                    await answer.read()
                    return answer.status

            nothing = -commands() + commands()  # what the question itself costs
            before = commands()
            paths = [READS[number % len(READS)] for number in range(1000)]
            assert set(await asyncio.gather(*map(get, paths))) == {200}
            assert commands() - before == nothing
        assert house.counted("stats_requests_total") >= 1000


async def test_stats_count_languages_services_and_spare_power(store_options):
    async with world(store_options) as house:
        node = await house.node(node_id="node-1")
        await node.beat(usage={"cpu_percent": 10.0, "gpu_percent": 25.0, "mem_percent": 75.0})
        await house.written(node)
        await house.session(src_lang="zh", tgt_lang="en")
        await house.session(src_lang="auto", tgt_lang="en", mode="two_way_auto", lang_a="zh", lang_b="en")
        said = await look(house.instance, "stats")
        clients, nodes = said["web_clients"], said["nodes"]
        assert clients["active_users"] == 2
        assert clients["language_usage"] == {
            "en": {"as_source": 1, "as_target": 3, "total": 4},
            "zh": {"as_source": 2, "as_target": 1, "total": 3},
        }
        assert clients["top_languages"][0] == {"language": "en", "count": 4}
        assert nodes["type_node_counts"] == {"Asr": 1, "Nmt": 1, "Tts": 1, "Semantic": 1}
        assert nodes["service_node_counts"]["asr-service"] == 1
        assert nodes["available_services"][0]["variants"] == [
            {"version": "", "platform": "linux", "artifact": None}
        ]
        (power,) = nodes["compute_power"]["node_power_details"]
        assert power == {
            "node_id": "node-1",
            "node_name": "Node-NODE-1",
            "cpu_power": 3.2,  # (50 - 10) % of 8 cores
            "gpu_power": 6.0,  # (75 - 25) % of 12 GB
            "memory_power": 0.0,
        }


async def test_how_fast_services_work_is_shown_as_their_node_says(store_options):
    async with world(store_options) as house:
        node = await house.node(node_id="n1")
        for said in ({"nmt-m2m100": 2.5, "your-tts": 1.5}, {"faster-whisper-vad": 4.0, "nmt-m2m100": 3.0}):
            await node.beat(processing_metrics={"serviceEfficiencies": said})
            await house.written(node)

        async def shown() -> bool:
            (seen,) = (await look(house.instance, "stats"))["nodes"]["compute_power"]["node_power_details"]
            (row,) = (await look(house.instance, "compute-power"))["nodes"]
            house.clock.advance(1)
            kinds = [seen.get(f"{kind}_efficiency") for kind in ("asr", "nmt", "tts")]
            return kinds == [4.0, 3.0, 1.5] and row["service_efficiencies"] == seen.get(
                "service_efficiencies"
            )

        await wait_until(shown, description="the newest word about each service is shown")


async def test_ac_79_the_cluster_shows_both_instances_and_all_nodes(store_options):
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession())
        one, other = [
            await stack.enter_async_context(running(configured(store_options, instance={"id": name})))
            for name in ("one", "other")
        ]
        node = await FakeNode(await http.ws_connect(f"{other.url}/ws/node")).register(node_id="n1")
        await node.beat(usage={"cpu_percent": 12.5})
        await node.expect("node_status", status="ready")
        for instance in (one, other):
            wish = {"src_lang": "auto", "mode": "two_way_auto", "lang_a": "zh", "lang_b": "en"}
            await Speaker(await http.ws_connect(f"{instance.url}/ws/session")).init(**wish)
        await other.company.beat()
        await one.company.look()
        await one.snapshot.refresh(one.stores.nodes)
        said = await look(one, "cluster")
        rows = {row["instance_id"]: row for row in said["instances"]}
        assert set(rows) == {"one", "other"}
        assert (said["total_instances"], said["online_instances"]) == (2, 2)
        assert (said["total_nodes"], said["online_nodes"], said["ready_nodes"]) == (1, 1, 1)
        assert said["total_sessions"] == 2
        assert [(rows[name]["sessions_owned"], rows[name]["nodes_owned"]) for name in rows] == [
            (1, 0),
            (1, 1),
        ]
        assert all(row["pid"] and row["version"] and row["hostname"] for row in rows.values())
        (shown,) = said["nodes"]
        assert (shown["platform"], shown["status"], shown["online"]) == ("linux", "ready", True)
        assert (shown["instance_id"], shown["cpu_usage"], shown["gpu_usage"]) == ("other", 12.5, 1.0)
        assert abs(time.time() * 1000 - shown["last_heartbeat"]) < 10_000
        assert shown["capabilities"][0] == {
            "service_type": "asr",
            "ready": True,
            "reason": None,
            "ready_impl_ids": [],
        }
        usage = (await look(one, "stats"))["web_clients"]["language_usage"]
        assert usage["zh"] == {"as_source": 2, "as_target": 2, "total": 4}


async def test_a_node_is_shown_with_the_reason_why_it_is_not_chosen(store_options):
    async with world(store_options) as house:
        await house.node(node_id="good")
        await house.node(node_id="own", accept_public_jobs=False)
        busy = await house.node(node_id="busy")
        await busy.beat(usage={"cpu_percent": 99.0})
        await house.written(busy)
        assert (await look(house.instance, "nodes/good"))["why"] is None
        private = await look(house.instance, "nodes/own")
        assert (private["node"]["excluded"], private["private"]) == ("not_in_public_pool", True)
        assert "paired" in private["why"]
        excluded = {row["node_id"]: row["excluded"] for row in (await look(house.instance, "nodes"))["nodes"]}
        assert excluded["busy"] == "resource_threshold_exceeded"
        status, said, _ = await ask(house.instance, "GET", "/api/v1/nodes/nobody")
        assert (status, said["title"]) == (404, "Not Found")


async def test_lists_come_in_pages(store_options):
    async with world(store_options) as house:
        for name in ("a", "b", "c"):
            await house.node(node_id=name)
        first = await look(house.instance, "nodes?limit=2")
        assert ([row["node_id"] for row in first["nodes"]], first["next"], first["total"]) == (
            ["a", "b"],
            "b",
            3,
        )
        last = await look(house.instance, "nodes?limit=2&cursor=b")
        assert ([row["node_id"] for row in last["nodes"]], last["next"]) == (["c"], None)
        cluster = await look(house.instance, "cluster?limit=1")
        assert (len(cluster["nodes"]), cluster["total_nodes"], cluster["next"]) == (1, 3, "a")
        speakers = [await house.session() for _ in range(3)]
        found, cursor = [], ""
        while cursor is not None:
            page = await look(house.instance, f"sessions?limit=2&cursor={cursor}")
            found += [row["session_id"] for row in page["sessions"]]
            cursor = page["next"]
        assert found == sorted(speaker.id for speaker in speakers)


@pytest.mark.parametrize("said", ["0", "1001", "x", "-1", "", "1&limit=2", "\u0661"])
async def test_a_limit_that_is_none_is_refused(store_options, said):
    async with world(store_options) as house:
        status, problem, headers = await ask(house.instance, "GET", f"/api/v1/nodes?limit={said}")
        assert (status, problem["status"]) == (400, 400)
        assert headers["Content-Type"].startswith("application/problem+json")


async def test_sessions_and_jobs_show_ids_and_states_and_never_what_was_said(store_options):
    async with world(store_options) as house:
        node = await house.node(node_id="n1")
        speaker = await house.session()
        await speaker.say()
        job = await node.job()
        (row,) = (await look(house.instance, "sessions"))["sessions"]
        assert (row["session_id"], row["state"], row["src_lang"], row["tgt_lang"]) == (
            speaker.id,
            "attached",
            "zh",
            "en",
        )
        assert (row["utterances"], row["jobs_open"]) == (1, 1)
        shown = await look(house.instance, f"jobs/{job['job_id']}")
        assert (shown["stage"], shown["node_id"], shown["attempt"]) == ("out", "n1", 1)
        await node.answer(job, asr="\u79d8\u5bc6", translated="a secret")
        await speaker.expect("translation_result")
        await house.settled(speaker)
        assert (await look(house.instance, f"jobs/{job['job_id']}"))["stage"] == "ended"
        for path in (*READS, f"jobs/{job['job_id']}"):
            assert "secret" not in str(await look(house.instance, path)), path
        counters = await look(house.instance, "metrics")
        assert counters["asr"]["e2e_latency"]["count"] == 1
        assert counters["web_task_segmentation"]["finalized_by_send_total"] == 1
        assert (await ask(house.instance, "GET", "/api/v1/jobs/job-none"))[0] == 404


async def test_what_has_not_changed_is_not_sent_again(store_options):
    async with world(store_options, admin={"refresh_ms": 10_000}) as house:
        _, _, headers = await ask(house.instance, "GET", "/api/v1/nodes")
        assert headers["Cache-Control"] == "private, no-cache"
        again = {"If-None-Match": headers["Etag"]}
        assert (await ask(house.instance, "GET", "/api/v1/nodes", headers=again))[0] == 304
        await house.node()
        await house.instance.desk.refresh()
        status, _, now = await ask(house.instance, "GET", "/api/v1/nodes", headers=again)
        assert (status, now["Lingua-Version"]) == (200, "1")


async def test_refusals_are_problems(store_options):
    async with world(store_options, server={"port": 0, "max_body_bytes": 1000}) as house:

        async def refused(method: str, path: str, **request) -> tuple[int, dict, dict[str, str]]:
            status, said, headers = await ask(house.instance, method, path, **request)
            assert headers["Content-Type"].startswith("application/problem+json")
            assert said["status"] == status
            return status, said, headers

        assert (await refused("GET", "/api/v1/nothing"))[0] == 404
        assert (await refused("GET", "/nothing"))[0] == 404
        status, _, headers = await refused("DELETE", "/api/v1/stats")
        assert (status, headers["Allow"]) == (405, "GET, HEAD")
        assert (await refused("PUT", "/api/v1/drain"))[2]["Allow"] == "DELETE, GET, HEAD, POST"
        assert (await refused("GET", f"/api/v1/stats?x={'y' * 5000}"))[0] == 414
        large = {"deadline_s": 1, "x": "y" * 2000}
        assert (await refused("POST", "/api/v1/drain", json=large))[0] == 413
        assert (await refused("POST", "/api/v1/drain", json={"deadline_s": "soon"}))[0] == 400
        assert (await refused("POST", "/api/v1/drain", data="x"))[0] == 415


async def test_with_a_token_everything_but_probes_and_pages_needs_it(store_options):
    async with world(store_options, admin={"token": Secret("secret-token")}) as house:
        for path in READS:
            assert (await ask(house.instance, "GET", f"/api/v1/{path}"))[0] == 401, path
        shown = {"Authorization": "Bearer secret-token"}
        for path in (*READS, "openapi.json"):
            assert (await ask(house.instance, "GET", f"/api/v1/{path}", headers=shown))[0] == 200, path
        async with aiohttp.ClientSession() as http:
            for path in ("/health", "/ready", "/metrics", "/", "/api/v1/languages"):
                async with http.get(f"{house.instance.url}{path}") as answer:
                    assert answer.status == 200, path


async def test_metrics_can_be_closed_to_strangers(store_options):
    options = {"token": Secret("secret-token"), "open_metrics": False}
    async with world(store_options, admin=options) as house, aiohttp.ClientSession() as http:
        async with http.get(f"{house.instance.url}/metrics") as answer:
            assert answer.status == 401
        shown = {"Authorization": "Bearer secret-token"}
        async with http.get(f"{house.instance.url}/metrics", headers=shown) as answer:
            assert answer.status == 200


async def test_a_pairing_code_leads_a_session_to_its_node(store_options):
    async with world(store_options) as house:
        await house.node(node_id="n1")
        order = {"node_id": "n1"}
        status, said, _ = await ask(house.instance, "POST", "/api/v1/pairing-codes", json=order)
        assert (status, said["node_id"], len(said["code"])) == (201, "n1", 6)
        speaker = await house.session(pairing_code=said["code"])
        assert speaker.ack["assigned_node_id"] == "n1"
        unknown = await ask(house.instance, "POST", "/api/v1/pairing-codes", json={"node_id": "n2"})
        assert unknown[0] == 404
        most = house.instance.config.pairing.codes_per_minute
        more = [await ask(house.instance, "POST", "/api/v1/pairing-codes", json=order) for _ in range(most)]
        assert more[-1][0] == 429


async def test_dead_letters_are_counted_and_shown_without_what_is_in_them(store_options):
    async with world(store_options, instance={"id": "me"}) as house:
        inbox = house.instance.stores.inbox
        await house.instance.watch.stop()
        await inbox.send(house.instance.id, b'{"type":"secret words"}')
        (letter,) = await inbox.take(block_s=0.1)
        await inbox.bury(letter, "nobody knows what it means")
        said = await look(house.instance, "dead-letters")
        (row,) = said["letters"]
        assert (said["total"], row["instance_id"], row["reason"]) == (1, "me", "nobody knows what it means")
        assert row["bytes"] == 23
        assert "secret" not in str(said)
        cluster = await look(house.instance, "cluster")
        assert (cluster["total_dlq"], cluster["instances"][0]["dlq_length"]) == (1, 1)


async def test_an_old_picture_is_shown_and_counted_as_stale(store_options):
    async with world(store_options, admin={"refresh_ms": 10_000}) as house:
        await house.instance.desk.refresh()
        house.clock.advance(11)
        await ask(house.instance, "GET", "/api/v1/stats")
        assert house.counted("stats_stale_total") == 1
        assert house.counted("dashboard_snapshot_age_seconds") == 11
