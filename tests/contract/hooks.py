"""Hooks for schemathesis: rules of the service that OpenAPI cannot express."""

import json

import schemathesis

import kept_output

LINES = ("application/jsonl", "application/x-ndjson")
# A host that the service allows for webhooks. It does not exist.
WEBHOOK = "https://hooks.example/twostep"


def contents(document):
    for path in document["paths"].values():
        for operation in path.values():
            for response in operation["responses"].values():
                yield from response.get("content", {}).items()


@schemathesis.hook
def before_load_schema(context, document):
    """OpenAPI 3.1 describes one event of a stream and one JSON line; 3.2 has `itemSchema`."""
    for media_type, content in contents(document):
        if media_type == "text/event-stream":
            schema = content.pop("schema")
            data = {"type": "string"}
            # The protocol of another vendor has data that is not JSON: its stream is a string.
            if schema != {"type": "string"}:
                data |= {"contentMediaType": "application/json", "contentSchema": schema}
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
    """Drops cases with an unknown header: HTTP servers ignore it, so the request is valid."""
    return "x-schemathesis-unknown-property" not in (case.headers or {})


@schemathesis.hook
def after_call(context, case, response):
    """Keeps error responses, which are searched for secrets. Others may contain secrets."""
    if response.status_code >= 400:
        kept_output.keep(response.content)


@schemathesis.hook
def before_call(context, case, kwargs):
    """Makes generated requests valid, except those that test a refusal."""
    if not case.meta or not case.meta.generation.mode.is_positive:
        return
    # Cursors and versions come from responses; generated ones are refused.
    for name in ("after", "before", "page"):
        (case.query or {}).pop(name, None)
    for name in ("If-Match", "If-None-Match", "Last-Event-ID"):
        (case.headers or {}).pop(name, None)
    operation = case.operation.definition.raw["operationId"]
    if operation in VALID:
        VALID[operation](case)


def brief_probe(case):
    """Removes the parameters that together determine the duration of a probe."""
    for name in ("events", "every_ms"):
        (case.query or {}).pop(name, None)


def message_with_text(case):
    """Replaces blank text, and removes a cost limit, which needs a model with a price."""
    if isinstance(case.body, dict):
        content = case.body.get("content")
        if isinstance(content, str) and not content.strip():
            case.body["content"] = "Hello"
        case.body.get("limits", {}).pop("cost", None)


def webhook_at_an_allowed_host(case):
    """Replaces the URL, and NUL characters, which the released schema does not exclude."""
    if isinstance(case.body, dict):
        if "url" in case.body:
            case.body["url"] = WEBHOOK
        if isinstance(case.body.get("description"), str):
            case.body["description"] = case.body["description"].replace("\0", " ")


VALID = {
    "stream_probe": brief_probe,
    "create_message": message_with_text,
    "create_webhook": webhook_at_an_allowed_host,
    "update_webhook": webhook_at_an_allowed_host,
}
