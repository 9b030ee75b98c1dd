"""Breaking changes are found, and additions are accepted."""

import copy
import json
import pathlib
import unittest

from additive import Comparison, Dangling

DOCUMENT = {
    "paths": {
        "/notes": {
            "post": {
                "operationId": "create_note",
                "security": [{"bearer": []}, {"key": []}],
                "parameters": [
                    {"in": "query", "name": "limit", "schema": {"type": "integer", "maximum": 9}},
                    {"in": "header", "name": "Prefer", "schema": {"type": "string"}},
                ],
                "requestBody": {
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/Given"}},
                        "text/plain": {"schema": {"type": "string"}},
                    }
                },
                "responses": {
                    "201": {
                        "headers": {"Location": {"schema": {"type": "string"}}},
                        "content": {
                            "application/json": {"schema": {"$ref": "#/components/schemas/Note"}}
                        },
                    },
                    "404": {"$ref": "#/components/responses/Missing"},
                },
            },
            "get": {"operationId": "list_notes", "responses": {"200": {}}},
        },
        "/health": {"get": {"operationId": "get_health", "responses": {"200": {}}}},
    },
    "webhooks": {
        "notification": {
            "post": {
                "parameters": [{"in": "header", "name": "webhook-id"}],
                "requestBody": {
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Notification"}}}
                },
            }
        }
    },
    "components": {
        "responses": {
            "Missing": {"content": {"application/problem+json": {"examples": {"a": {}, "b": {}}}}}
        },
        "securitySchemes": {
            "bearer": {"type": "http", "scheme": "bearer"},
            "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
        },
        "schemas": {
            "Given": {
                "type": "object",
                "required": ["text"],
                "properties": {
                    "text": {"type": ["string", "null"], "maxLength": 10},
                    "color": {"type": "string", "enum": ["red", "blue"]},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "size": {"$ref": "#/components/schemas/Size"},
                    "weight": {"oneOf": [{"$ref": "#/components/schemas/Size"}, {"type": "null"}]},
                },
            },
            "Note": {
                "allOf": [
                    {"$ref": "#/components/schemas/Base"},
                    {
                        "type": "object",
                        "required": ["at"],
                        "properties": {
                            "at": {"type": "string", "format": "date-time"},
                            "state": {"type": "string", "enum": ["new", "old"]},
                            "event": {"$ref": "#/components/schemas/Event"},
                            "change": {"$ref": "#/components/schemas/Change"},
                        },
                    },
                ]
            },
            "Base": {
                "type": "object",
                "required": ["id"],
                "properties": {
                    "id": {"type": "string"},
                    "parent": {"$ref": "#/components/schemas/Note"},
                    "mark": {"oneOf": [{"$ref": "#/components/schemas/Mark"}, {"type": "null"}]},
                },
            },
            "Event": {
                "oneOf": [
                    {
                        "type": "object",
                        "required": ["type", "by"],
                        "properties": {"type": {"enum": ["made"]}, "by": {"type": "string"}},
                    },
                    {"type": "object", "properties": {"type": {"enum": ["read"]}}},
                ]
            },
            "Size": {"type": "object", "properties": {"cm": {"type": "integer"}}},
            "Notification": {"type": "object", "properties": {"seq": {"type": "integer"}}},
            "Mark": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            "Change": {
                "oneOf": [
                    {"type": "object", "properties": {"kind": {"enum": ["cut"]}}},
                    {"type": "object", "properties": {"kind": {"const": "moved"}}},
                ]
            },
        },
    },
}

CREATE = "POST /notes"
GIVEN = f"{CREATE} body application/json"
NOTE = f"{CREATE} 201 application/json"


def operation(document):
    return document["paths"]["/notes"]["post"]


def schema(document, name):
    return document["components"]["schemas"][name]


def properties(document, name):
    return schema(document, name)["properties"]


def note(document):
    return schema(document, "Note")["allOf"][1]


def event(document):
    return schema(document, "Event")["oneOf"]


def change(document):
    return schema(document, "Change")["oneOf"]


def problem(document):
    return document["components"]["responses"]["Missing"]["content"]["application/problem+json"]


def schemes(document):
    return document["components"]["securitySchemes"]


BREAKS = [
    (lambda d: d["paths"].pop("/health"), "paths: the path /health was removed"),
    (lambda d: d["paths"]["/notes"].pop("get"), "/notes: the method get was removed"),
    (
        lambda d: operation(d).update(operationId="make_note"),
        f"{CREATE}: create_note is make_note now",
    ),
    (
        lambda d: operation(d)["security"].pop(),
        f'{CREATE}: the security requirement {{"key": []}} was removed',
    ),
    (
        lambda d: d["paths"]["/health"]["get"].update(security=[{"bearer": []}]),
        "GET /health: the security requirement {} was removed",
    ),
    (
        lambda d: operation(d)["parameters"].pop(),
        f"{CREATE}: the parameter header prefer was removed",
    ),
    (
        lambda d: operation(d)["parameters"][1].update(required=True),
        f"{CREATE}: the parameter header prefer is required now",
    ),
    (
        lambda d: operation(d)["parameters"].append({"in": "query", "name": "q", "required": True}),
        f"{CREATE}: the new parameter query q is required",
    ),
    (
        lambda d: operation(d)["parameters"][0]["schema"].update(maximum=5),
        f"{CREATE} query limit: maximum was 9 and is 5",
    ),
    (
        lambda d: operation(d)["parameters"][0]["schema"].update(minimum=1),
        f"{CREATE} query limit: minimum was None and is 1",
    ),
    (
        lambda d: operation(d)["requestBody"].update(required=True),
        f"{CREATE}: the body is required now",
    ),
    (
        lambda d: operation(d).pop("requestBody"),
        f"{CREATE} body: the media type application/json was removed",
    ),
    (
        lambda d: operation(d)["requestBody"]["content"].pop("text/plain"),
        f"{CREATE} body: the media type text/plain was removed",
    ),
    (lambda d: operation(d)["responses"].pop("404"), f"{CREATE}: the status 404 was removed"),
    (
        lambda d: operation(d)["responses"]["201"].pop("headers"),
        f"{CREATE} 201: the header location was removed",
    ),
    (
        lambda d: operation(d)["responses"]["201"].pop("content"),
        f"{CREATE} 201: the media type application/json was removed",
    ),
    (lambda d: properties(d, "Given").pop("color"), f"{GIVEN}: the member color was removed"),
    (
        lambda d: schema(d, "Given")["required"].append("color"),
        f"{GIVEN}: the member color is required now",
    ),
    (
        lambda d: properties(d, "Given")["text"].update(type="string"),
        f"{GIVEN}/text: the type was null or string and is string",
    ),
    (
        lambda d: properties(d, "Given")["text"].update(pattern="^a"),
        f"{GIVEN}/text: the pattern has changed",
    ),
    (
        lambda d: properties(d, "Given")["text"].update(enum=["a"]),
        f"{GIVEN}/text: not every value is accepted now",
    ),
    (
        lambda d: properties(d, "Given")["color"]["enum"].remove("red"),
        f"{GIVEN}/color: the value red was removed",
    ),
    (
        lambda d: properties(d, "Given")["tags"]["items"].update(type="integer"),
        f"{GIVEN}/tags/*: the type was string and is integer",
    ),
    (
        lambda d: schema(d, "Given").update(additionalProperties=False),
        f"{GIVEN}: other members are refused now",
    ),
    (lambda d: properties(d, "Base").pop("id"), f"{NOTE}: the member id was removed"),
    (lambda d: note(d)["required"].clear(), f"{NOTE}: the member at may be missing now"),
    (
        lambda d: note(d)["properties"]["at"].update(type=["string", "null"]),
        f"{NOTE}/at: the type was string and is null or string",
    ),
    (
        lambda d: note(d)["properties"]["at"].pop("format"),
        f"{NOTE}/at: the format was date-time and is None",
    ),
    (
        lambda d: note(d)["properties"]["state"]["enum"].remove("old"),
        f"{NOTE}/state: the value old was removed",
    ),
    (
        lambda d: note(d)["properties"]["state"].pop("enum"),
        f"{NOTE}/state: it may have any value now",
    ),
    (lambda d: event(d).pop(), f"{NOTE}/event: the alternative read was removed"),
    (
        lambda d: event(d)[0]["properties"].pop("by"),
        f"{NOTE}/event(made): the member by was removed",
    ),
    (
        lambda d: properties(d, "Given").update(weight={"$ref": "#/components/schemas/Size"}),
        f"{GIVEN}/weight: the type was any and is object",
    ),
    (
        lambda d: properties(d, "Base").update(mark={"type": "string"}),
        f"{NOTE}/mark: the alternative integer was removed",
    ),
    (lambda d: change(d).pop(0), f"{NOTE}/change: the alternative cut was removed"),
    (lambda d: change(d).pop(), f"{NOTE}/change: the alternative moved was removed"),
    (
        lambda d: change(d).append(copy.deepcopy(change(d)[0])),
        f"{NOTE}/change: two alternatives are cut",
    ),
    (lambda d: problem(d)["examples"].pop("a"), f"{CREATE} 404: the code a was removed"),
    (lambda d: schemes(d).pop("key"), "securitySchemes: the scheme key was removed"),
    (
        lambda d: schemes(d)["key"].update(name="key"),
        "securitySchemes key: name was x-api-key and is key",
    ),
    (
        lambda d: schemes(d)["bearer"].update(scheme="basic"),
        "securitySchemes bearer: scheme was bearer and is basic",
    ),
    (lambda d: d["webhooks"].pop("notification"), "webhooks: the webhook notification was removed"),
    (
        lambda d: d["webhooks"]["notification"]["post"]["parameters"].pop(),
        "notification: the parameter header webhook-id was removed",
    ),
    (
        lambda d: properties(d, "Notification").pop("seq"),
        "notification body application/json: the member seq was removed",
    ),
]

ADDS = [
    lambda d: d["paths"].update({"/more": {"get": {"operationId": "more", "responses": {}}}}),
    lambda d: operation(d)["security"].append({"ticket": []}),
    lambda d: operation(d)["parameters"].append({"in": "query", "name": "q"}),
    lambda d: operation(d)["parameters"][0]["schema"].update(maximum=20),
    lambda d: operation(d)["requestBody"]["content"].update({"text/html": {}}),
    lambda d: operation(d)["responses"].update({"409": {}}),
    lambda d: operation(d)["responses"]["201"]["headers"].update(ETag={}),
    lambda d: properties(d, "Given").update(price={"type": "integer"}),
    lambda d: properties(d, "Given").update(size=properties(d, "Given")["weight"]),
    lambda d: properties(d, "Given")["color"]["enum"].append("green"),
    lambda d: properties(d, "Given")["color"].update(type=["string", "null"]),
    lambda d: schema(d, "Given").update(required=[]),
    lambda d: properties(d, "Base").update(size={"type": "integer"}),
    lambda d: schema(d, "Base")["required"].append("parent"),
    lambda d: properties(d, "Base").update(mark={"$ref": "#/components/schemas/Mark"}),
    lambda d: note(d)["properties"]["state"]["enum"].append("lost"),
    lambda d: event(d).append({"type": "object", "properties": {"type": {"enum": ["lost"]}}}),
    lambda d: change(d)[0]["properties"].update(by={"const": "hand"}),
    lambda d: problem(d)["examples"].update(c={}),
    lambda d: d["webhooks"].update(more={}),
    lambda d: schema(d, "Notification").update(required=["seq"]),
    lambda d: schemes(d).update(ticket={"type": "apiKey"}),
    lambda d: schemes(d)["key"].update(description="A key."),
]


def found(change):
    new = copy.deepcopy(DOCUMENT)
    change(new)
    return Comparison(copy.deepcopy(DOCUMENT), new).documents()


class Additive(unittest.TestCase):
    def test_breaking_changes_are_found(self):
        for change, line in BREAKS:
            with self.subTest(line):
                # Without a body, its other media type is reported as well.
                self.assertEqual(found(change)[:1], [line])

    def test_additions_are_accepted(self):
        for number, change in enumerate(ADDS):
            with self.subTest(number):
                self.assertEqual(found(change), [])

    def test_a_dangling_reference_is_reported(self):
        with self.assertRaisesRegex(Dangling, "^#/components/schemas/Event does not exist$"):
            found(lambda d: d["components"]["schemas"].pop("Event"))

    def test_the_released_document_adds_to_itself(self):
        path = pathlib.Path(__file__).parents[2] / "openapi" / "released.json"
        document = json.loads(path.read_text(encoding="utf-8"))
        self.assertEqual(Comparison(document, document).documents(), [])


if __name__ == "__main__":
    unittest.main()
