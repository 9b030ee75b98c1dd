"""The SDK of Anthropic for Python against a running service.

The service is at ANTHROPIC_BASE_URL, its key is ANTHROPIC_API_KEY.
"""

import asyncio
import base64

import anthropic

TOOLSET = {"type": "agent_toolset_20260401"}
ASK = {**TOOLSET, "configs": [{"name": "write", "permission_policy": {"type": "always_ask"}}]}
LOOKUP = {
    "type": "custom",
    "name": "lookup",
    "description": "Looks up a word.",
    "input_schema": {"type": "object", "properties": {"word": {"type": "string"}}},
}

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)

client = anthropic.Anthropic()


def user(text):
    return {"type": "user.message", "content": [{"type": "text", "text": text}]}


def start(*tools):
    agent = client.beta.agents.create(name="Desk", model="simulator", tools=list(tools))
    environment = client.beta.environments.create(name="quickstart", config={"type": "cloud"})
    return client.beta.sessions.create(agent=agent.id, environment_id=environment.id)


def send(session, *events):
    return client.beta.sessions.events.send(session.id, events=list(events)).data


def turn(stream):
    """The events up to the next `session.status_idle`."""
    events = []
    for event in stream:
        events.append(event)
        if event.type == "session.status_idle":
            return events
    raise AssertionError("the stream ended")


def text_of(events):
    blocks = (block for event in events if event.type == "agent.message" for block in event.content)
    return "".join(block.text for block in blocks)


def of_type(events, kind):
    return next(event for event in events if event.type == kind)


def quick_start():
    agent = client.beta.agents.create(
        name="Coding Assistant", model="simulator", system="Be helpful.", tools=[TOOLSET]
    )
    assert (agent.type, agent.version) == ("agent", 1), agent
    environment = client.beta.environments.create(
        name="quickstart", config={"type": "cloud", "networking": {"type": "unrestricted"}}
    )
    session = client.beta.sessions.create(agent=agent.id, environment_id=environment.id, title="Quickstart")
    assert session.status == "idle", session
    with client.beta.sessions.events.stream(session.id, event_deltas=["agent.message"]) as stream:
        sent = send(session, user("Hello"))
        events = turn(stream)
    assert events[0].id == sent[0].id, events
    assert text_of(events) == "You said Hello.", events
    assert events[-1].stop_reason.type == "end_turn", events[-1]
    deltas = [event.delta.content.text for event in events if event.type == "event_delta"]
    assert "".join(deltas) == "You said Hello.", deltas
    stored = [event.id for event in events if event.type not in ("event_start", "event_delta")]
    listed = list(client.beta.sessions.events.list(session.id, limit=2))
    assert [event.id for event in listed] == stored, listed
    changed = client.beta.sessions.update(session.id, title="Renamed", metadata={"team": "north"})
    assert (changed.title, changed.metadata) == ("Renamed", {"team": "north"}), changed
    assert [one.id for one in client.beta.sessions.list(agent_id=agent.id)] == [session.id]
    assert client.beta.sessions.archive(session.id).archived_at is not None
    assert client.beta.sessions.delete(session.id).type == "session_deleted"
    try:
        client.beta.sessions.retrieve(session.id)
    except anthropic.NotFoundError as error:
        assert error.body["error"]["type"] == "not_found_error", error.body
    else:
        raise AssertionError("a deleted session was found")


def confirmations():
    for result, message in [("allow", None), ("deny", "Not today.")]:
        session = start(ASK)
        with client.beta.sessions.events.stream(session.id) as stream:
            send(session, user("Please write"))
            call = of_type(turn(stream), "agent.tool_use")
            assert (call.name, call.evaluated_permission) == ("write", "ask"), call
            decision = {"type": "user.tool_confirmation", "tool_use_id": call.id, "result": result}
            send(session, decision | ({"deny_message": message} if message else {}))
            outcome = of_type(turn(stream), "agent.tool_result")
            assert outcome.is_error == (result == "deny"), outcome
            assert message is None or message in outcome.content[0].text, outcome


def custom_tool():
    session = start(LOOKUP)
    with client.beta.sessions.events.stream(session.id) as stream:
        send(session, user("Please look up a word"))
        call = of_type(turn(stream), "agent.custom_tool_use")
        assert call.input == {"word": "ledger"}, call
        content = [{"type": "text", "text": "a book"}]
        result = {"type": "user.custom_tool_result", "custom_tool_use_id": call.id, "content": content}
        assert send(session, result)[0].custom_tool_use_id == call.id
        assert text_of(turn(stream)) == "It means a book"


def files():
    """An uploaded image in a message."""
    png = base64.b64decode(PIXEL)
    image = client.beta.files.upload(file=("pixel.png", png, "image/png"))
    assert (image.filename, image.mime_type, image.size_bytes) == ("pixel.png", "image/png", len(png)), image
    assert client.beta.files.retrieve_metadata(image.id).id == image.id
    assert client.beta.files.download(image.id).read() == png
    session = start()
    source = {"type": "file", "file_id": image.id}
    content = [{"type": "text", "text": "Which image?"}, {"type": "image", "source": source}]
    with client.beta.sessions.events.stream(session.id) as stream:
        send(session, {"type": "user.message", "content": content})
        assert text_of(turn(stream)) == "A nice picture."
    assert client.beta.files.delete(image.id).id == image.id


async def interrupt():
    async with anthropic.AsyncAnthropic() as asynchronous:
        events = asynchronous.beta.sessions.events
        session = start()
        stream = await events.stream(session.id, event_deltas=["agent.message"])
        await events.send(session.id, events=[user("Be slow")])
        async for event in stream:
            if event.type == "event_delta":
                await events.send(session.id, events=[{"type": "user.interrupt"}])
                break
        await stream.close()
        for _ in range(2000):
            if (await asynchronous.beta.sessions.retrieve(session.id)).status == "idle":
                break
            await asyncio.sleep(0.01)
        kinds = [event.type async for event in events.list(session.id)]
        assert "user.interrupt" in kinds and kinds[-1] == "session.status_idle", kinds


quick_start()
confirmations()
custom_tool()
files()
asyncio.run(interrupt())
