# Hashes, arrays and regular expressions over text.
use strict;
use warnings;

my (%count, %lines, %pairs);
open my $in, '<', $ARGV[0] or die "$ARGV[0]: $!";
my $number = 0;
while (my $line = <$in>) {
    last if ++$number > 60_000;
    chomp $line;
    my $before = '';
    while ($line =~ /([a-z]+)([0-9]*)/g) {
        my $word = ucfirst $1;
        $count{$word}++;
        push @{ $lines{$word} }, $number if length($2) and $2 % 3 == 0;
        $pairs{"$before $word"}++ if $before ne '';
        $before = $word;
    }
    (my $changed = $line) =~ s/([aeiou])([^aeiou ])/$2$1/g;
    $count{ substr $changed, 0, 6 }++;
}
my @top = sort { $count{$b} <=> $count{$a} or $a cmp $b } keys %count;
print scalar(keys %count), ' ', scalar(keys %pairs), ' ', scalar(map { @$_ } values %lines), "\n";
print "$_ $count{$_}\n" for splice @top, 0, 20;
