<?php
// Arrays, strings, regular expressions, JSON, sorting, generators and closures.
function rows(int $n): Generator {
    for ($i = 0; $i < $n; $i++) {
        yield ['id' => $i, 'name' => "item $i", 'tags' => ["t" . $i % 3, "t" . $i % 7], 'price' => $i * 1.25];
    }
}
$rows = iterator_to_array(rows(40000), false);
$text = json_encode($rows);
$back = json_decode($text, true);
usort($back, fn($a, $b) => [$b['tags'], $a['id']] <=> [$a['tags'], $b['id']]);
$words = [];
foreach ($back as $row) {
    foreach ($row['tags'] as $tag) {
        $words[$tag][] = strtoupper($row['name']);
    }
}
$sum = 0;
foreach ($words as $tag => $names) {
    $joined = implode(',', array_reverse($names));
    $sum += preg_match_all('/([A-Z]+) (\d*7)\b/', $joined, $found) + strlen(preg_replace('/\d+/', '<$0>', $joined));
}
$copy = unserialize(serialize($back));
echo strlen($text), ' ', count($words), ' ', $sum, ' ', md5(serialize($copy)), "\n";
