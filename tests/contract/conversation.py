"""A conversation through the Python client that openapi-python-client generates.

All modules of the client are imported. The service is at TWOSTEP_URL, its key is TWOSTEP_KEY.
"""

import importlib
import os
import pkgutil

import twostep_client
from twostep_client.api.events import list_events
from twostep_client.api.messages import create_message, list_messages
from twostep_client.api.sessions import create_session, delete_session, get_session
from twostep_client.models import (
    AgentMessageEvent,
    CreateMessage,
    CreateSession,
    HistoryMessage,
    Problem,
    RunResource,
    RunStatus,
    SessionResource,
    SessionStatusIdleEvent,
    StopReasonEndTurn,
    UserMessageEvent,
)

QUESTION = "Write hello to notes.txt and then read notes.txt"


def import_all():
    """Imports all modules, and returns their number."""
    modules = pkgutil.walk_packages(twostep_client.__path__, twostep_client.__name__ + ".")
    return sum(1 for module in modules if importlib.import_module(module.name))


def converse(client):
    session = create_session.sync(client=client, body=CreateSession(title="From Python"))
    assert isinstance(session, SessionResource), session
    body = CreateMessage(content=QUESTION)
    run = create_message.sync(session.id, client=client, body=body, prefer="wait=60", idempotency_key="one")
    assert isinstance(run, RunResource), run
    assert run.status == RunStatus.COMPLETED, run
    assert isinstance(run.stop_reason, StopReasonEndTurn), run.stop_reason

    events = list_events.sync(session.id, client=client).data
    assert isinstance(events[0], UserMessageEvent), events[0]
    assert isinstance(events[-1], SessionStatusIdleEvent), events[-1]
    assert isinstance(events[-1].stop_reason, StopReasonEndTurn), events[-1]
    answers = [event for event in events if isinstance(event, AgentMessageEvent)]
    assert answers[-1].content[0].text == run.output_text, answers[-1]

    history = list_messages.sync(session.id, client=client).data
    assert all(isinstance(item.message, HistoryMessage) for item in history), history
    assert len(history) == 6, history

    assert delete_session.sync_detailed(session.id, client=client).status_code == 204
    missing = get_session.sync(session.id, client=client)
    assert isinstance(missing, Problem) and missing.code == "session_not_found", missing


def main():
    number = import_all()
    client = twostep_client.AuthenticatedClient(
        base_url=os.environ["TWOSTEP_URL"],
        token=os.environ["TWOSTEP_KEY"],
        raise_on_unexpected_status=True,
    )
    with client:
        converse(client)
    print(f"python client: ok, {number} modules")


main()
