run() {
    under node "$FILES/workers.js"
    under node "$IN/objects.js"
}
