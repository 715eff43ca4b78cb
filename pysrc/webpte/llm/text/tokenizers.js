// The JavaScript half of tokenizer_json.py. Texts and lists of tokens cross as strings, so that Python
// holds no JavaScript objects.
//
// Evaluates to open(library, text, config): the module @huggingface/tokenizers, and two JSON texts.

(library, text, config) => {
    // The library takes only 0 to 9 for digits; tokenizer files are made for one that includes ½ and ².
    function allDigits(part) {
        if (part?.type === "Digits") {
            const digits = part.individual_digits ? "\\p{N}" : "\\p{N}+";
            return { type: "Split", pattern: { Regex: digits }, behavior: "Isolated", invert: false };
        }
        const parts = part?.pretokenizers?.map(allDigits);
        return parts ? { ...part, pretokenizers: parts } : part;
    }

    const content = JSON.parse(text);
    const described = { ...content, pre_tokenizer: allDigits(content.pre_tokenizer) };
    const tokenizer = new library.Tokenizer(described, JSON.parse(config));
    // The library's byte decoder would drop a U+FEFF at the start of a run as a byte order mark.
    for (const part of tokenizer.decoder?.decoders ?? []) {
        if (part.text_decoder) part.text_decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    }
    return {
        // Leaves out a character without a token if the vocabulary has no token for unknown ones.
        encode: (text, special) =>
            JSON.stringify(tokenizer.encode(text, { add_special_tokens: special }).ids.filter((id) => id != null)),

        decode: (tokens) =>
            tokenizer.decode(JSON.parse(tokens), { skip_special_tokens: false, clean_up_tokenization_spaces: false }),

        join: (tokens) => {
            const pieces = JSON.parse(tokens);
            return tokenizer.decoder ? tokenizer.decoder.decode(pieces) : pieces.join(" ");
        },
    };
}
