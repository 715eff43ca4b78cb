"""Planning: lowering calls to dispatches, memory planning, assembling shaders."""
