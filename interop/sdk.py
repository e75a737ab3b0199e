"""A provider's own SDK, unmodified, against a door: sdk.py DIALECT URL MODEL.

Two turns with a tool, streamed, then both whole; then a call more than the
budget has. Prints what the SDK understood as one line of JSON."""
import json
import sys

dialect, url, model = sys.argv[1:]
TASK, SCHEMA = "What is the weather in Bern?", {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}
out = {"text": "", "tool": "", "args": {}, "final": "", "streamed": 0, "in": 0, "out": 0, "refused": ""}


def anthropic():
    import anthropic as sdk

    client = sdk.Anthropic(base_url=url, api_key="canary-in-the-box", max_retries=0)
    base = dict(model=model, max_tokens=200, system="You say the weather.",
                tools=[{"name": "weather", "description": "of a town", "input_schema": SCHEMA}])
    for streamed in (True, False):
        messages = [{"role": "user", "content": TASK}]
        for turn in range(2):
            if streamed:
                with client.messages.stream(messages=messages, **base) as s:
                    out["streamed"] += sum(1 for _ in s.text_stream)
                    m = s.get_final_message()
            else:
                m = client.messages.create(messages=messages, **base)
            out["in"] += m.usage.input_tokens
            out["out"] += m.usage.output_tokens
            text = "".join(b.text for b in m.content if b.type == "text")
            if turn == 1:
                assert m.stop_reason == "end_turn", m
                out["final"] = text
                continue
            assert m.stop_reason == "tool_use", m
            call = [b for b in m.content if b.type == "tool_use"][0]
            out["text"], out["tool"], out["args"] = text, call.name, call.input
            messages += [{"role": "assistant", "content": m.content},
                         {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "snow"}]}]
    try:
        client.messages.create(messages=[{"role": "user", "content": TASK}], **base)
    except sdk.RateLimitError as e:
        out["refused"] = type(e).__name__


def openai():
    import openai as sdk

    client = sdk.OpenAI(base_url=url + "/v1", api_key="canary-in-the-box", max_retries=0)
    base = dict(model=model, max_tokens=200, tools=[{"type": "function", "function": {"name": "weather", "description": "of a town", "parameters": SCHEMA}}])
    for streamed in (True, False):
        messages = [{"role": "system", "content": "You say the weather."}, {"role": "user", "content": TASK}]
        for turn in range(2):
            if streamed:
                with client.chat.completions.stream(messages=messages, stream_options={"include_usage": True}, **base) as s:
                    out["streamed"] += sum(1 for e in s if e.type == "content.delta")
                    r = s.get_final_completion()
            else:
                r = client.chat.completions.create(messages=messages, **base)
            out["in"] += r.usage.prompt_tokens
            out["out"] += r.usage.completion_tokens
            m = r.choices[0].message
            if turn == 1:
                out["final"] = m.content
                continue
            call = m.tool_calls[0]
            out["text"], out["tool"], out["args"] = m.content, call.function.name, json.loads(call.function.arguments)
            messages += [{"role": "assistant", "content": m.content, "tool_calls": [{"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": call.function.arguments}}]},
                         {"role": "tool", "tool_call_id": call.id, "content": "snow"}]
    try:
        client.chat.completions.create(messages=messages, **base)
    except sdk.RateLimitError as e:
        out["refused"] = type(e).__name__


def responses():
    import openai as sdk

    client = sdk.OpenAI(base_url=url + "/v1", api_key="canary-in-the-box", max_retries=0)
    base = dict(model=model, max_output_tokens=200, instructions="You say the weather.",
                tools=[{"type": "function", "name": "weather", "description": "of a town", "parameters": SCHEMA, "strict": False}])
    for streamed in (True, False):
        turns = [{"role": "user", "content": TASK}]
        for turn in range(2):
            if streamed:
                with client.responses.stream(input=turns, **base) as s:
                    out["streamed"] += sum(1 for e in s if e.type == "response.output_text.delta")
                    r = s.get_final_response()
            else:
                r = client.responses.create(input=turns, **base)
            assert r.status == "completed", r
            out["in"] += r.usage.input_tokens
            out["out"] += r.usage.output_tokens
            if turn == 1:
                out["final"] = r.output_text
                continue
            call = [i for i in r.output if i.type == "function_call"][0]
            out["text"], out["tool"], out["args"] = r.output_text, call.name, json.loads(call.arguments)
            # As the SDK's users do it: what came out goes back in.
            turns += [i.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for i in r.output]
            for i in turns:
                for part in i["content"] if isinstance(i.get("content"), list) else []:
                    part.pop("parsed", None)
            turns += [{"type": "function_call_output", "call_id": call.call_id, "output": "snow"}]
    try:
        client.responses.create(input=TASK, **base)
    except sdk.RateLimitError as e:
        out["refused"] = type(e).__name__


def google():
    from google import genai
    from google.genai import errors, types

    client = genai.Client(api_key="canary-in-the-box", http_options=types.HttpOptions(base_url=url))
    config = types.GenerateContentConfig(
        system_instruction="You say the weather.", max_output_tokens=200,
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        tools=[types.Tool(function_declarations=[types.FunctionDeclaration(name="weather", description="of a town", parameters=types.Schema(
            type="OBJECT", properties={"town": types.Schema(type="STRING")}, required=["town"]))])])
    for streamed in (True, False):
        turns = [types.Content(role="user", parts=[types.Part(text=TASK)])]
        for turn in range(2):
            if streamed:
                chunks = list(client.models.generate_content_stream(model=model, contents=turns, config=config))
                out["streamed"] += len(chunks)
            else:
                chunks = [client.models.generate_content(model=model, contents=turns, config=config)]
            out["in"] += chunks[-1].usage_metadata.prompt_token_count
            out["out"] += chunks[-1].usage_metadata.candidates_token_count
            parts = [p for c in chunks if c.candidates for p in c.candidates[0].content.parts or []]
            text = "".join(p.text for p in parts if p.text)
            assert chunks[-1].candidates[0].finish_reason == types.FinishReason.STOP, chunks[-1]
            if turn == 1:
                out["final"] = text
                continue
            call = [p.function_call for p in parts if p.function_call][0]
            out["text"], out["tool"], out["args"] = text, call.name, call.args
            turns += [types.Content(role="model", parts=parts),
                      types.Content(role="user", parts=[types.Part.from_function_response(name=call.name, response={"result": "snow"})])]
    try:
        client.models.generate_content(model=model, contents=TASK, config=config)
    except errors.ClientError as e:
        assert e.code == 429, e
        out["refused"] = type(e).__name__


{"anthropic": anthropic, "openai": openai, "responses": responses, "google": google}[dialect]()
print(json.dumps(out))
