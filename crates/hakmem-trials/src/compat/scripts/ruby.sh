run() {
    under /usr/bin/ruby "$FILES/threads.rb"
}
