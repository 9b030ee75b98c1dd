"""What an OpenAPI document has no words for, said to the program that makes requests up."""

import json

import schemathesis

import seen

LINES = ("application/jsonl", "application/x-ndjson")
# A host that the service was told of. Nothing listens there.
WEBHOOK = "https://hooks.example/twostep"


def contents(document):
    for path in document["paths"].values():
        for operation in path.values():
            for response in operation["responses"].values():
                yield from response.get("content", {}).items()


@schemathesis.hook
def before_load_schema(context, document):
    """OpenAPI 3.1 describes one event of a stream, and one line of lines: 3.2 has a word for it."""
    for media_type, content in contents(document):
        if media_type == "text/event-stream":
            data = {
                "type": "string",
                "contentMediaType": "application/json",
                "contentSchema": content.pop("schema"),
            }
            event = {"type": "object", "required": ["data"], "properties": {"data": data}}
            content["itemSchema"] = event
        elif media_type in LINES:
            content["schema"] = {"type": "array", "items": content["schema"]}


@schemathesis.deserializer(*LINES)
def read_lines(context, response):
    return [json.loads(line) for line in response.text.splitlines() if line.strip()]


@schemathesis.serializer(*LINES)
def write_lines(context, value):
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


@schemathesis.hook
def filter_case(context, case):
    """A header that nobody knows is ignored, as HTTP has it: it makes no request a wrong one."""
    return "x-schemathesis-unknown-property" not in (case.headers or {})


@schemathesis.hook
def after_call(context, case, response):
    """What is refused is searched for secrets; what is not may tell them, to whom they belong."""
    if response.status_code >= 400:
        seen.keep(response.content)


@schemathesis.hook
def before_call(context, case, kwargs):
    """Makes good requests better. Those that are to be refused are sent as they are."""
    if not case.meta or not case.meta.generation.mode.is_positive:
        return
    # Places and versions come from answers; nobody makes them up.
    for name in ("after", "before"):
        (case.query or {}).pop(name, None)
    for name in ("If-Match", "Last-Event-ID"):
        (case.headers or {}).pop(name, None)
    operation = case.operation.definition.raw["operationId"]
    if operation in BETTER:
        BETTER[operation](case)


def brief_probe(case):
    """Number and pauses bound together how long a probe takes."""
    for name in ("events", "every_ms"):
        (case.query or {}).pop(name, None)


def message_with_words(case):
    """A blank text is none, and only some models have a price."""
    if isinstance(case.body, dict):
        content = case.body.get("content")
        if isinstance(content, str) and not content.strip():
            case.body["content"] = "Hello"
        case.body.get("limits", {}).pop("cost", None)


def webhook_at_a_listed_host(case):
    if isinstance(case.body, dict) and "url" in case.body:
        case.body["url"] = WEBHOOK


BETTER = {
    "stream_probe": brief_probe,
    "create_message": message_with_words,
    "create_webhook": webhook_at_a_listed_host,
    "update_webhook": webhook_at_a_listed_host,
}
