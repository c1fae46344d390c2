run() {
    export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
    under git -c safe.directory='*' clone --quiet --bare "file://$IN/repository" one.git
    under git -C one.git -c gc.aggressiveWindow=50 gc --quiet --aggressive --prune=now
    under git -C one.git fsck --full --strict
    under git clone --quiet --branch main one.git tree
    under git -C tree log --stat --format='%H %an %s' | digest
    under git -C tree blame part1/file1.txt | digest
    under git -C tree grep -c qua | digest
    under git -C tree archive HEAD | digest
    under git -C tree -c pack.threads=2 repack -a -d -q
    under git -C tree rev-list --objects --all | sort | digest
    under git -C tree diff 'HEAD~300' HEAD | digest
}
