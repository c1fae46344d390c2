run() {
    under sqlite3 -batch :memory: ".read $IN/tables.sql" | digest
    under sqlite3 -batch file.db ".read $IN/tables.sql" | digest
    under sqlite3 -batch file.db ".read $FILES/speed.sql"
    under sqlite3 -batch file.db .dump | digest
}
