run() {
    under php "$FILES/objects.php"
    USE_ZEND_ALLOC=0 under php "$FILES/objects.php"
}
