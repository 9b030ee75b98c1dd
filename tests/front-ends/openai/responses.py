"""The Responses of the package of OpenAI for Python against a running service.

The service is at OPENAI_BASE_URL, its key is OPENAI_API_KEY.
"""

import base64
import json

import openai

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)
LOOKUP = {
    "type": "function",
    "name": "lookup",
    "description": "Looks up a word.",
    "parameters": {"type": "object", "properties": {"word": {"type": "string"}}},
    "strict": False,
}

client = openai.OpenAI()


def create(input, **options):
    return client.responses.create(model="default", input=input, **options)


def of(response, kind):
    return [item for item in response.output if item.type == kind]


def text():
    first = create("Hello")
    assert first.output_text == "You said Hello.", first
    assert first.usage.input_tokens_details.cached_tokens >= 0, first
    second = create("Again", previous_response_id=first.id)
    assert second.output_text == "You said Again.", second
    assert second.conversation.id == first.conversation.id, second
    assert client.responses.retrieve(second.id).output_text == second.output_text


def tools():
    with client.responses.stream(model="default", input="Tell me the time") as stream:
        kinds = [event.type for event in stream]
        response = stream.get_final_response()
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed", kinds
    assert response.output_text == "I look.It is late.", response
    [call] = of(response, "mcp_call")
    assert (call.name, call.status) == ("get_time", "completed"), call
    with client.responses.stream(response_id=response.id, starting_after=3) as stream:
        assert all(event.sequence_number > 3 for event in stream)


def client_tools():
    history = [{"role": "user", "content": "Please look up two words"}]
    response = create(history, tools=[LOOKUP], store=False)
    history += response.output
    for call in of(response, "function_call"):
        word = json.loads(call.arguments)["word"]
        history.append({"type": "function_call_output", "call_id": call.call_id, "output": f"a {word}"})
    response = create(history, tools=[LOOKUP], store=False)
    assert response.output_text == "They mean a ledger\n\na journal", response


def images():
    image = client.files.create(file=("pixel.png", base64.b64decode(PIXEL)), purpose="vision")
    content = [{"type": "input_text", "text": "Which image?"}, {"type": "input_image", "file_id": image.id}]
    response = create([{"role": "user", "content": content}])
    assert response.output_text == "A nice picture.", response
    assert client.files.content(image.id).read() == base64.b64decode(PIXEL)
    assert client.files.delete(image.id).deleted


def stop():
    response = create("Be slow", background=True)
    assert client.responses.cancel(response.id).status == "cancelled"
    with create("Be slow", stream=True) as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                break


def errors():
    try:
        create("Hello", previous_response_id="resp_1")
    except openai.NotFoundError as raised:
        assert raised.code == "run_not_found", raised
    else:
        raise AssertionError("an unknown response was continued")
    with client.responses.stream(model="default", input="Please break") as stream:
        response = [event for event in stream][-1].response
    assert response.status == "failed" and "invalid_request_error" in response.error.message, response


text()
tools()
client_tools()
images()
stop()
errors()
