// Evaluates to a function that stores a text in the browser's cache of this name, by its address. It promises
// whether the text was stored; false without a cache, room or permission.
//
// In JavaScript, because Python would wait for ever for a promise that is rejected with QuotaExceededError.

(async (cache, address, body) => {
    try {
        await (await caches.open(cache)).put(address, new Response(body));
        return true;
    } catch {
        return false;
    }
})
