<?php
// Arrays, objects, strings and JSON, as a page has them that a server makes.
class Item
{
    public array $tags;

    public function __construct(public int $id, public string $name)
    {
        $this->tags = ["t" . $id % 5, "t" . $id % 17];
    }
}

$items = [];
for ($i = 0; $i < 40000; $i++) {
    $items[] = new Item($i, "item $i" . str_repeat("x", $i % 50));
}
$sum = 0;
for ($round = 0; $round < 6; $round++) {
    $groups = [];
    foreach ($items as $item) {
        $groups[implode("/", $item->tags) . ":" . $item->id % 400][] = strtoupper($item->name);
    }
    ksort($groups);
    $text = json_encode($groups);
    $again = json_decode($text, true);
    $html = "";
    foreach ($again as $key => $names) {
        $html .= "<li>" . htmlspecialchars($key) . ": " . count($names) . " " . preg_replace('/\d/', '#', $names[0]);
    }
    $sum = ($sum * 31 + strlen($text) + strlen($html) + count($again)) % 1000003;
}
echo $sum, "\n";
