// The JavaScript half of gpu/libraries.py's tokenizer: texts and lists of tokens go through as
// strings, so that nothing in JavaScript has to be kept or freed by Python.
//
// Evaluates to open(library, text, config), both of them JSON, `library` being @huggingface/tokenizers.

(library, text, config) => {
    const tokenizer = new library.Tokenizer(JSON.parse(text), JSON.parse(config));
    // Its decoder of bytes takes a U+FEFF at the start of a run for a mark, and drops it.
    for (const part of tokenizer.decoder?.decoders ?? []) {
        if (part.text_decoder) part.text_decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    }
    return {
        // A character that is no token, where there is no token for the unknown, is left out.
        encode: (text, special) =>
            JSON.stringify(tokenizer.encode(text, { add_special_tokens: special }).ids.filter((id) => id != null)),

        decode: (tokens) =>
            tokenizer.decode(JSON.parse(tokens), { skip_special_tokens: false, clean_up_tokenization_spaces: false }),
    };
}
