"""AI models in rules: what is asked of a server on this machine, how often, and what becomes of its failures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from certificates import certificates
from model_server import ModelServer, model_server

from cdc.block import ChangeBlock
from cdc.errors import CdcError, ModelUnavailable, SpecError, TransformError, from_json
from cdc.restarts import RestartPolicy, Restarts
from cdc.retry import RetryPolicy
from cdc.schema import Column, CreateTable, DataType, TableId, TableSchema
from cdc.spec.check import check
from cdc.spec.rules import parsed_rules
from cdc.state.store import LocalStore
from cdc.testing import FailAt, ListSink, ListSource, block, local_pipeline, run_cases, run_in_memory
from cdc.testing.case import CaseResult
from cdc.testing.cases import STAND_INS
from cdc.transform import models
from cdc.transform.answers import SAVED_S, Answers
from cdc.transform.model_client import ModelClient, Patience
from cdc.transform.rules import Rules
from cdc.transform.runner import RuleRunner
from cdc.transform.texts import Model

KEY = "sk-very-secret"
T = TableId("shop", "t")
SCHEMA = TableSchema(
    (Column("id", DataType.parse("INT"), nullable=False), Column("a", DataType.parse("STRING"))), ("id",)
)
COLUMNS = [{"name": "id", "type": "INT", "nullable": False}, {"name": "a", "type": "STRING"}]
CREATE = {"change": "create.table", "table": "shop.t", "schema": {"columns": COLUMNS, "primary_key": ["id"]}}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """The server; what may pass is tried again at once, on a clock that stands still but while it waits."""
    slept, waited = list[float](), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    policy = RetryPolicy(timeout_s=2.0, clock=lambda: sum(slept))
    monkeypatch.setattr(models, "RETRY", Patience(policy, sleep))
    of_batch = RetryPolicy(timeout_s=1.0, clock=lambda: sum(waited), sleep=waited.append)
    monkeypatch.setattr(local_pipeline, "RetryPolicy", lambda **_: of_batch)
    with model_server() as running:
        yield running


def pipeline(server: ModelServer, rule: dict[str, Any], **options: Any) -> str:
    chat = {
        "model-name": "CHAT", "class-name": "OpenAIChatModel", "openai.model": "small",
        "openai.host": f"http://127.0.0.1:{server.port}", "openai.apikey": KEY, "openai.chat.prompt": "Shout",
        **options,
    }  # fmt: skip
    vector = {
        "model-name": "vector", "class-name": "OpenAIEmbeddingModel", "openai.model": "tiny",
        "openai.host": f"http://127.0.0.1:{server.port}/demo/v1", "openai.apikey": KEY,
    }  # fmt: skip
    return json.dumps({"transform": [{"source-table": r"shop.\.*", **rule}], "pipeline": {"model": [chat, vector]}})


def rules(server: ModelServer) -> Rules:
    text = pipeline(server, {"projection": "id, chat(a) AS b"})
    made = parsed_rules(check("p.yaml", text.encode(), env={}, stand_ins=STAND_INS).spec)
    assert made is not None
    return made


def run(server: ModelServer, texts: list[str | None], rule: dict[str, Any] | None = None, **options: Any) -> CaseResult:
    lines = [{"op": "+I", "table": "shop.t", "row": {"id": id_, "a": text}} for id_, text in enumerate(texts)]
    text = pipeline(server, rule or {"projection": "id, chat(a) AS b"}, **options)
    (result,) = run_cases([{"name": "one", "pipeline": text, "input": [CREATE, *lines]}])
    return result


def answers(result: CaseResult, column: str = "b") -> list[Any]:
    assert result.error is None, result.error
    return [line["row"][column] for line in map(json.loads, result.output) if "op" in line]


def failure(result: CaseResult) -> str:
    assert result.error is not None
    told = json.dumps(result.error)
    assert KEY not in told
    return told


def rows(at: int, *texts: str) -> ChangeBlock:
    return block(T, SCHEMA, [("+I", {"id": at * 10 + n, "a": text}) for n, text in enumerate(texts)], sequence=at)


def test_a_chat_model_answers_each_row_with_text_and_is_asked_as_the_file_says(server: ModelServer) -> None:
    assert answers(run(server, ["hello"])) == ["HELLO 1"]
    ((path, authorization, body),) = server.requests
    assert (path, authorization, body["model"]) == ("/v1/chat/completions", f"Bearer {KEY}", "small")
    assert body["messages"] == [{"role": "system", "content": "Shout"}, {"role": "user", "content": "hello"}]


def test_the_same_text_is_asked_for_once_and_null_and_blank_texts_never(server: ModelServer) -> None:
    made = answers(run(server, ["a", "b", None, "a", " ", "b", "ä"]))
    assert server.texts == ["a", "b", "ä"]
    assert [text and text[0] for text in made] == ["A", "B", None, "A", None, "B", "Ä"]
    assert made[0] == made[3]


def test_requests_go_side_by_side_up_to_the_limit(server: ModelServer) -> None:
    answers(run(server, [f"text {n}" for n in range(20)], **{"request.parallelism": 3}))
    assert len(server.requests) == 20
    assert server.most <= 3


def test_an_embedding_is_a_json_array_and_many_texts_are_one_request(server: ModelServer) -> None:
    made = answers(run(server, ["a", "bb", None, "ccc"], {"projection": "id, VECTOR(a) AS b, vector(a)[2] AS half"}))
    assert [text and json.loads(text) for text in made] == [[1, 0.5], [2, 0.5], None, [3, 0.5]]
    assert [path for path, _, _ in server.requests] == ["/demo/v1/embeddings"]


def test_rows_that_the_filter_holds_back_are_not_asked_for(server: ModelServer) -> None:
    answers(run(server, ["a", "b"], {"projection": "id, chat(a) AS b", "filter": "a = 'b'"}))
    assert server.texts == ["b"]


def test_what_may_pass_is_asked_again(server: ModelServer) -> None:
    server.failures = [429, 500, 503]
    assert answers(run(server, ["a"])) == ["A 4"]


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_stops_the_run_and_is_in_no_message(server: ModelServer, status: int) -> None:
    server.failures = [status]
    told = failure(run(server, ["a"], {"projection": "id, chat(a) AS b", "on-error": "null"}))
    assert f"model CHAT (http://127.0.0.1:{server.port}/v1)" in told
    assert f"the server refuses the key: HTTP {status}" in told
    assert len(server.requests) == 1


def test_another_final_answer_stops_the_run_without_the_key_that_it_shows(server: ModelServer) -> None:
    server.failures = [404]
    assert "HTTP 404" in failure(run(server, ["a"]))
    assert len(server.requests) == 1


def test_a_text_that_the_model_refuses_names_its_row_or_is_null(server: ModelServer) -> None:
    server.refused = {"bad"}
    told = failure(run(server, ["good", "bad"]))
    assert "column b" in told
    assert "id=1" in told
    assert "HTTP 400" in told
    assert server.texts == ["bad", "good"]
    first, second = answers(run(server, ["bad", "good"], {"projection": "id, chat(a) AS b", "on-error": "null"}))
    assert (first, second[:4]) == (None, "GOOD")
    made = answers(run(server, ["bad", "good"], {"projection": "id, vector(a) AS b", "on-error": "null"}))
    assert [text and json.loads(text) for text in made] == [None, [4, 0.5]]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"projection": "*", "filter": "chat(a) = 'x'"}, "a filter cannot use a model"),
        ({"projection": "id, chat(a) AS b", "primary-keys": "b"}, "the key column b cannot use a model"),
        ({"projection": "id, chat('x') AS b"}, "CHAT gets the same text in every row"),
        ({"projection": "id, chat(id) AS b"}, "CHAT takes text, got INT"),
        ({"projection": "id, UPPER(chat(a)) AS b", "on-error": "dead-letter"}, "dead-letter"),
    ],
)
def test_what_decides_about_rows_cannot_be_an_answer(server: ModelServer, rule: dict[str, Any], words: str) -> None:
    assert words in failure(run(server, ["a"], rule))
    assert server.requests == []


def test_a_table_without_a_key_cannot_have_answers(server: ModelServer) -> None:
    create = {"change": "create.table", "table": "shop.t", "schema": {"columns": COLUMNS}}
    text = pipeline(server, {"projection": "id, chat(a) AS b"})
    (result,) = run_cases([{"name": "one", "pipeline": text, "input": [create]}])
    assert "a model cannot be used for a table without a key" in failure(result)


def named(
    server: ModelServer, projection: str, texts: list[str | None], rule: Any = None, **options: Any
) -> CaseResult:
    """A run with one model by name, `Small`."""
    given = {"model": "small", "endpoint": f"http://127.0.0.1:{server.port}/x/v1", "api-key": KEY, **options}
    models = [{"name": "Small", "type": "openai-compatible", "options": given}]
    rules = [{"source-table": "shop.t", "projection": projection, **(rule or {})}]
    lines = [{"op": "+I", "table": "shop.t", "row": {"id": id_, "a": text}} for id_, text in enumerate(texts)]
    text = json.dumps({"transform": rules, "pipeline": {"model": models}})
    (result,) = run_cases([{"name": "one", "pipeline": text, "input": [CREATE, *lines]}])
    return result


def test_a_model_by_name_answers_with_json_and_is_told_the_task_of_each_row(server: ModelServer) -> None:
    server.content = '```json\n{"result": "fine"}\n```'
    made = named(
        server, "id, AI_COMPLETE('small', a, 'Answer ' || CAST(id AS STRING)) AS b", ["one", None, "two", " "],
        **{"system-prompt": "Be brief", "user-prompt": "Thanks", "temperature": "0.2", "max-tokens": 9,
           "extra-body": '{"top_k": 3}', "extra-header": '{"X-Team": "data"}'},
    )  # fmt: skip
    assert answers(made) == ['{"result": "fine"}', None, '{"result": "fine"}', None]
    (column,) = (each for each in made.schemas["shop.t"]["columns"] if each["name"] == "b")
    assert column["type"] == "JSON"
    first, second = sorted(server.requests, key=lambda request: str(request[2]["messages"]))
    assert first[0] == "/x/v1/chat/completions"
    assert [message["role"] for message in first[2]["messages"]] == ["system", "user", "user"]
    assert first[2]["messages"][0]["content"].split("\n")[:2] == ["Be brief", "Answer 0"]
    assert first[2]["messages"][1:] == [{"role": "user", "content": "one"}, {"role": "user", "content": "Thanks"}]
    assert second[2]["messages"][0]["content"].split("\n")[1] == "Answer 2"
    assert {key: value for key, value in first[2].items() if key != "messages"} == {
        "model": "small", "temperature": 0.2, "max_tokens": 9, "top_k": 3,
    }  # fmt: skip


def test_each_function_of_text_asks_for_a_json_object(server: ModelServer) -> None:
    calls = [
        "AI_CLASSIFY('small', a, 'red, blue')", "AI_TRANSLATE('small', a, 'auto', 'German')",
        "AI_SUMMARIZE('small', a, 80)", "AI_SENTIMENT('small', a)", "AI_EXTRACT('small', a, 'city, country')",
        "AI_MASK('small', a, 'names')",
    ]  # fmt: skip
    server.content = '{"summary": "x"}'
    columns = [f"CAST({call}['summary'] AS STRING) AS b{number}" for number, call in enumerate(calls)]
    made = named(server, f"id, {', '.join(columns)}", ["a"])
    assert [answers(made, f"b{number}") for number in range(len(calls))] == [["x"]] * len(calls)
    assert len(server.requests) == len(calls)
    assert all("JSON object" in body["messages"][0]["content"] for _, _, body in server.requests)


def test_an_answer_that_is_no_json_names_its_row_or_is_null(server: ModelServer) -> None:
    assert "the answer is not JSON: A 1" in failure(named(server, "id, AI_SENTIMENT('small', a) AS b", ["a"]))
    assert answers(named(server, "id, AI_SENTIMENT('small', a) AS b", ["a"], {"on-error": "null"})) == [None]


def test_embeddings_and_images_of_a_model_by_name(server: ModelServer) -> None:
    made = named(server, "id, AI_EMBED('SMALL', a) AS b", ["a", "bb"], dimension=2)
    assert [json.loads(each) for each in answers(made)] == [[1, 0.5], [2, 0.5]]
    assert [(path, body["dimensions"]) for path, _, body in server.requests] == [("/x/v1/embeddings", 2)]
    server.requests.clear()
    projection = "id, AI_IMAGE_COMPLETE('small', CAST(a AS BYTES), 'What is it?') AS b"
    server.content = "a gif"
    assert answers(named(server, projection, ["GIF89a...", None])) == ["a gif", None]
    ((_, _, body),) = server.requests
    text, image = body["messages"][0]["content"]
    assert text == {"type": "text", "text": "What is it?"}
    assert image == {"type": "image_url", "image_url": {"url": "data:image/gif;base64,R0lGODlhLi4u"}}
    assert "the bytes are not a PNG, JPEG, GIF or WebP image" in failure(named(server, projection, ["text"]))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("AI_EMBED('other', a)", "there is no model other (pipeline.model has Small)"),
        ("AI_EMBED(a, a)", "takes the model's name as a text constant (choose between calls"),
        ("AI_SUMMARIZE('small', a, 'x')", "AI_SUMMARIZE takes an integer, got"),
        ("AI_IMAGE_COMPLETE('small', a, 'x')", "takes an image as bytes, got STRING"),
        ("AI_IMAGE_EMBED('small', a)", "no server with OpenAI's protocol makes embeddings of images"),
        ("AI_EMBED('small', 'x')", "AI_EMBED gets the same text in every row"),
    ],
)
def test_a_call_that_cannot_be_asked(server: ModelServer, call: str, words: str) -> None:
    assert words in failure(named(server, f"id, {call} AS b", ["a"])).replace('\\"', "'")
    assert server.requests == []


def test_a_model_by_name_decides_about_no_row_and_its_key_is_nowhere(server: ModelServer) -> None:
    assert "a filter cannot use a model" in failure(
        named(server, "*", ["a"], {"filter": "AI_EMBED('small', a)[1] > 1"})
    )
    text = json.dumps({"pipeline": {"model": [{"name": "a", "type": "openai-compatible", "options": {
        "model": "small", "endpoint": "https://models.example.com", "api-key": "${MODEL_KEY}"}}]}})  # fmt: skip
    spec = check("p.yaml", text.encode(), env={"MODEL_KEY": KEY}, stand_ins=STAND_INS).spec
    assert spec.secret_variables == ("MODEL_KEY",)
    assert spec.rule_settings.models[0].api_key == KEY
    assert KEY not in repr(spec) + spec.model_dump_json(exclude={"rules", "rule_settings"})


@pytest.mark.parametrize("failed", list(FailAt))
def test_a_batch_that_runs_again_does_not_ask_again(server: ModelServer, failed: FailAt, tmp_path: Path) -> None:
    sink = ListSink()
    items = [CreateTable(T, SCHEMA), rows(1, "a", "b"), rows(2, "c", "a"), failed]
    run_in_memory(ListSource(items), sink, restarted=lambda: sink, state=tmp_path, rules=rules(server))
    assert server.texts == ["a", "b", "c"]
    assert sorted(row["b"][0] for row in sink.rows(T)) == ["A", "A", "B", "C"]
    assert list((tmp_path / "answers").iterdir()) == []


def test_a_server_that_is_away_is_asked_again_with_what_it_answered_before_kept(
    server: ModelServer, tmp_path: Path
) -> None:
    sink = ListSink()
    items = [CreateTable(T, SCHEMA), rows(1, "a"), rows(2, "b")]
    answered = rules(server)
    seen: list[int] = []

    class Source(ListSource):
        def read(self, *args: Any) -> Iterator[ChangeBlock]:
            for number, each in enumerate(super().read(*args)):
                if number == 1 and not seen:
                    seen.append(len(server.requests))
                    server.failures = [503] * 1_000
                elif number == 0 and seen:
                    server.failures = []
                yield each

    run_in_memory(Source(items), sink, state=tmp_path, rules=answered)
    assert seen == [1]
    assert server.texts.count("a") == 1
    assert server.texts.count("b") > 2
    assert sorted(row["b"][0] for row in sink.rows(T)) == ["A", "B"]


def asked(model: Model, text: str = "a") -> str:
    """The answer to one text, asked for once."""

    async def ask() -> str:
        async with ModelClient(model, Patience(RetryPolicy(timeout_s=0))) as client:
            return await client.chat("", text)

    return asyncio.run(ask())


def test_no_answer_in_time_is_told_with_the_limit(server: ModelServer) -> None:
    server.answering.clear()
    model = rules(server).models[0].model
    with pytest.raises(ModelUnavailable, match=r"no answer within 0\.05 s") as caught:
        asked(replace(model, timeout_s=0.05))
    assert Restarts(RestartPolicy()).plan(caught.value, batch=1, committed=False, now_s=0) is not None
    assert KEY not in str(caught.value)
    assert KEY not in repr(model)


def test_a_server_that_drips_its_answer_is_given_no_longer_than_the_whole_request_may_take(server: ModelServer) -> None:
    server.dripping = True
    with pytest.raises(ModelUnavailable, match=r"no answer within 0\.3 s"):
        asked(replace(rules(server).models[0].model, timeout_s=0.3))


MANY = [f"text {number}" for number in range(20)]


@pytest.mark.parametrize(
    ("status", "words"),
    [(500, "HTTP 500"), (401, "the server refuses the key"), (404, "HTTP 404"), (0, "JSON was expected")],
)
def test_whatever_fails_with_many_texts_waiting_ends_all_of_them(server: ModelServer, status: int, words: str) -> None:
    server.failures = [status] * 10_000
    assert words in failure(run(server, MANY))
    if status != 500:  # that one is asked again
        assert len(server.requests) <= 8


def test_a_request_that_fails_late_leaves_the_answers_before_it_on_disk(server: ModelServer, tmp_path: Path) -> None:
    clock = [0.0]
    store = LocalStore(tmp_path)
    kept = Answers(store, "batch-1-part-0", clock=lambda: clock[0])
    for number in range(3):
        kept.put(f"key {number}", f"answer {number}")
        clock[0] += SAVED_S * (number == 1)
        kept.save_periodically()
    again = Answers(store, "batch-1-part-0")  # as after kill -9
    assert [again.get(f"key {number}") for number in range(3)] == ["answer 0", "answer 1", None]
    again.put("key 2", "answer 2")
    again.save()
    assert Answers(store, "batch-1-part-0").get("key 2") == "answer 2"
    assert len(store.names()) == 2


def test_every_error_comes_back_from_another_process_as_what_it_is() -> None:
    """`retryable` decides whether a run ends: an error that became another on the way would end it, or never."""
    kinds = [CdcError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    own = [kind for kind in kinds if kind.__module__ == "cdc.errors" and kind is not SpecError]
    assert {type(from_json(kind("x").to_json())) for kind in own} == set(own)


def test_a_server_whose_certificate_is_not_trusted_is_told_nothing(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, identity = certificates(tmp_path)
    model = rules(server).models[0].model
    with model_server(identity) as behind:
        model = replace(model, url=f"https://127.0.0.1:{behind.port}/v1")
        with pytest.raises(TransformError, match="certificate is not trusted"):
            asked(model)
        assert behind.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        assert asked(model) == "A 1"


def test_the_key_is_nowhere_to_be_seen_in_a_checked_file(server: ModelServer) -> None:
    text = pipeline(server, {"projection": "id, chat(a) AS b"}, **{"openai.apikey": "${MODEL_KEY}"})
    spec = check("p.yaml", text.encode(), env={"MODEL_KEY": KEY}, stand_ins=STAND_INS).spec
    assert spec.secret_variables == ("MODEL_KEY",)
    assert [model.api_key for model in spec.rule_settings.models] == [KEY, KEY]
    assert KEY not in repr(spec)
    assert KEY not in spec.model_dump_json(exclude={"rules", "rule_settings"})


def test_who_only_compares_rows_asks_nothing_and_leaves_answers_out(server: ModelServer) -> None:
    asking = rules(server)
    with RuleRunner(asking) as runner:
        made = runner.apply(rows(1, "a", "b"), datetime(2026, 1, 1, tzinfo=UTC))
    assert made.rows.column("b").to_pylist() == [None, None]
    assert asking.unrepeatable(T, SCHEMA) == ["b"]
    assert server.requests == []
