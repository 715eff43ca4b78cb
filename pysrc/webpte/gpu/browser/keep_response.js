// Evaluates to a function that keeps a reply in the browser's cache of that name, by its address; it promises
// whether it is kept. Where there is no such cache, or no room, or the page may not, it is not.
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
