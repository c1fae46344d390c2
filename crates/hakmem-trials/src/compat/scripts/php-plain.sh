run() {
    under php -n "$FILES/objects.php"
    USE_ZEND_ALLOC=0 under php -n "$FILES/objects.php"
}
