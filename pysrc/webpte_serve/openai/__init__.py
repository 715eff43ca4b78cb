"""OpenAI's API over programs on this device: the same requests and answers, without a server.

    client = webpte_serve.openai.Client([webpte_serve.openai.Model("llama", program, tokenizer)])
    answer = await client.chat.completions.create(model="llama", messages=[...])
    print(answer["choices"][0]["message"]["content"])

Requests are keyword arguments, answers are the JSON objects of the API as dicts; with `stream=True`
an async iterator of chunks. `python3 serve.py api` answers the same requests over HTTP.
"""

from webpte_serve.openai.client import Client
from webpte_serve.openai.models import EmbeddingModel, Model
from webpte_serve.openai.open_model import open_model
from webpte_serve.openai.requests import RequestError

__all__ = ["Client", "EmbeddingModel", "Model", "RequestError", "open_model"]
