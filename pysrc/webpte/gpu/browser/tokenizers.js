// The JavaScript half of gpu/browser/libraries.py's tokenizer: texts and lists of tokens go through as
// strings, so that nothing in JavaScript has to be kept or freed by Python.
//
// Evaluates to open(library, text, config), both of them JSON, `library` being @huggingface/tokenizers.

(library, text, config) => {
    // To the library only 0 to 9 are digits; to the one that files are made for, ½ and ² are, too.
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
