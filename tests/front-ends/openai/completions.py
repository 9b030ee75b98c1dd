"""The package of OpenAI for Python against a running service.

The service is at OPENAI_BASE_URL, its key is OPENAI_API_KEY.
"""

import asyncio
import json
import uuid

import openai

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)
LOOKUP = {
    "type": "function",
    "function": {
        "name": "lookup",
        "description": "Looks up a word.",
        "parameters": {"type": "object", "properties": {"word": {"type": "string"}}},
    },
}

client = openai.OpenAI()


def user(content):
    return {"role": "user", "content": content}


def create(messages, **options):
    return client.chat.completions.create(model="default", messages=messages, **options)


def text():
    completion = create([user("Hello")])
    assert completion.choices[0].message.content == "You said Hello.", completion
    assert completion.usage.total_tokens > 0, completion
    models = [model.id for model in client.models.list()]
    assert models[0] == "default", models
    assert client.models.retrieve("default").id == "default"


def tools():
    chunks = create([user("Tell me the time")], stream=True, stream_options={"include_usage": True})
    answer, usage, reason = "", None, None
    for chunk in chunks:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            answer += choice.delta.content or ""
            reason = choice.finish_reason or reason
    assert (answer, reason) == ("I look.\n\nIt is late.", "stop"), (answer, reason)
    assert usage.completion_tokens > 0, usage
    with client.chat.completions.stream(model="default", messages=[user("Tell me the time")]) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.content == answer, final


def client_tools():
    messages = [user("Please look up two words")]
    message = create(messages, tools=[LOOKUP]).choices[0].message
    words = [json.loads(call.function.arguments)["word"] for call in message.tool_calls]
    assert words == ["ledger", "journal"], message
    messages.append(message)
    for call, word in zip(message.tool_calls, words):
        messages.append({"role": "tool", "tool_call_id": call.id, "content": f"a {word}"})
    answer = create(messages, tools=[LOOKUP]).choices[0].message.content
    assert answer == "They mean a ledger\n\na journal", answer


def transcripts():
    messages = [user(f"Hello {uuid.uuid4()}")]

    def say():
        raw = client.chat.completions.with_raw_response.create(model="default", messages=messages)
        messages.append(raw.parse().choices[0].message)
        return raw.headers["x-session-id"]

    session = say()
    messages.append(user("Again"))
    assert say() == session
    messages.pop()
    assert say() != session, "an answer was regenerated in the same session"


def images():
    content = [{"type": "text", "text": "Which image?"}, {"type": "image_url", "image_url": {"url": PIXEL}}]
    answer = create([user(content)]).choices[0].message.content
    assert answer == "A nice picture.", answer


def fails(error, code, call):
    try:
        call()
    except error as raised:
        assert raised.code == code, raised
        return
    raise AssertionError(f"no {error.__name__}")


def errors():
    unknown = lambda: client.chat.completions.create(model="unknown", messages=[user("Hello")])
    fails(openai.NotFoundError, "model_not_found", unknown)
    fails(openai.UnprocessableEntityError, "validation_failed", lambda: create([]))
    once = client.with_options(max_retries=0).chat.completions
    broken = [user("Please break")]
    fails(openai.InternalServerError, "run_failed", lambda: once.create(model="default", messages=broken))
    try:
        for chunk in create(broken, stream=True):
            assert chunk.id
    except openai.APIError as raised:
        assert "invalid_request_error" in str(raised.body), raised.body
    else:
        raise AssertionError("the stream ended as if it were complete")
    try:
        openai.OpenAI(api_key="wrong").models.list()
    except openai.AuthenticationError as raised:
        assert raised.type == "authentication_error", raised
    else:
        raise AssertionError("a wrong key was accepted")


async def stop():
    name = str(uuid.uuid4())
    headers = {"X-Session-Id": name}
    async with openai.AsyncOpenAI(default_headers=headers) as other:
        stream = await other.chat.completions.create(
            model="default", messages=[user("Be slow")], stream=True
        )
        answer = ""
        async for chunk in stream:
            answer += chunk.choices[0].delta.content or "" if chunk.choices else ""
            if "word3" in answer:
                await stream.close()
                break
    assert "word39" not in answer, answer


text()
tools()
client_tools()
transcripts()
images()
errors()
asyncio.run(stop())
