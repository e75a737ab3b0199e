"""Fills a schema where one is wanted."""

from harnyx_miner_sdk.decorators import entrypoint
from harnyx_miner_sdk.query import Query, Response


@entrypoint("query")
async def query(request: Query) -> Response:
    schema = {"type": "object", "properties": {"year": {"type": "integer"}}, "required": ["year"]}
    asked = Query(text="Which year?", output_schema=schema)
    told = [asked.output_schema["required"], request.output_schema, asked.model_dump()["text"]]
    for bad in ({"text": " "}, {"text": "x", "colour": 1}, {"text": "x", "output_schema": {"$schema": "http://json-schema.org/draft-07/schema#"}}, {"text": "x", "output_schema": {"$ref": "https://e.example/x"}}):
        try:
            Query.model_validate(bad)
            told.append("taken")
        except ValueError:
            told.append("refused")
    return Response(output={"year": 1931, "told": told})
