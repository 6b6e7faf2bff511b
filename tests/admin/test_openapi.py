"""The OpenAPI document is about what is served, and about nothing else."""

from __future__ import annotations

import re

from asking import ask
from world import world

PROBES = ("/health", "/ready", "/metrics")


async def test_every_endpoint_that_is_served_is_described(store_options):
    async with world(store_options) as house:
        _, document, _ = await ask(house.instance, "GET", "/api/v1/openapi.json")
        assert document["openapi"] == "3.1.0"
        routes = house.instance.edge._app.router.routes()
        known = {(route.method, route.resource.canonical) for route in routes if route.method != "HEAD"}
        served = {(method, path) for method, path in known if path in PROBES or path.startswith("/api/")}
        described = {
            (method.upper(), path) for path, methods in document["paths"].items() for method in methods
        }
        assert described == served


async def test_references_lead_somewhere_and_operations_have_names_of_their_own(store_options):
    async with world(store_options) as house:
        _, document, _ = await ask(house.instance, "GET", "/api/v1/openapi.json")
        schemas = document["components"]["schemas"]
        assert set(re.findall(r"#/components/schemas/([\w.]+)", str(document))) <= set(schemas)
        operations = [each for methods in document["paths"].values() for each in methods.values()]
        names = [each["operationId"] for each in operations]
        assert len(set(names)) == len(names)
        assert all(each["summary"].endswith(".") for each in operations)
        in_path = {
            path: {
                each["name"]
                for each in next(iter(methods.values())).get("parameters", ())
                if each["in"] == "path"
            }
            for path, methods in document["paths"].items()
        }
        assert all(set(re.findall(r"{(\w+)}", path)) == names for path, names in in_path.items())
