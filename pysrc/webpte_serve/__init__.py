"""Programs as a service: OpenAI's API, its HTTP server, and workers on a cluster of Ray.

openai/   requests and answers of OpenAI's API, also in the browser
api/      the HTTP server (`serve.py api`)
ray/      many rows on several GPUs and machines
"""
